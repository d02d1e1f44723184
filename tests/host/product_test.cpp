#include <catch2/catch.hpp>

#include "builder.hpp"
#include "dsl/base/error.hpp"

// What tensor cores read in shared memory: the values, and what must not happen to it meanwhile.

using namespace host_test;
using Catch::Matchers::Contains;

namespace {

/// Thread t has row t / 2 of a [64, 32] TF32 matrix in registers, or what the test wants, and stores it to shared
/// memory, of which a product with itself is made: [64, 64].
struct Product {
    Builder b{"product"};
    int tile = 0, store_line = 0, product_line = 0;

    struct Changes {
        bool fence = true, barrier = true, store_meanwhile = false, wait = true;
        int offset = 0, rows = 64;
    };
    explicit Product(const Changes& c) {
        const int x = b.tensor("x", tf32, {{b.i64c(64), b.i64c(32)}, {b.i64c(32), b.i64c(1)}});
        const int y = b.vector_tensor("y", f32, b.i64c(128 * 32));
        tile = b.tile("tile", tf32, {64, 32}, 0, {3, 2, 3});
        b.grid({b.i64c(1)});
        const int words = b.array("words", tf32, 1, 16), sums = b.array("sums", f32, 1, 32);
        // Thread t moves the four 16-byte pieces t, t + 128, … of the 512.
        for (int i = 0; i < 4; ++i) {
            const Ref piece = b.add(b.thread(), b.i32c(128 * i));
            const Ref row = b.op(BinaryOp::div, piece, b.i32c(8)), chunk = b.op(BinaryOp::mod, piece, b.i32c(8));
            const Ref column = b.mul(chunk, b.i32c(4));
            const Ref plain = b.add(b.mul(row, b.i32c(32)), column);
            b.load(access(ir::Space::global, x, {row, column}, b.cast(i64, plain), 4), words, 4 * i);
            store(words, i, row, chunk, column);
        }
        for (int w = 0; w < 32; ++w) b.set(sums, w, b.f32c(0));
        if (c.fence) b.put(ir::ProxyFence{}, Here::current());
        if (c.barrier) b.barrier();
        b.put(ir::MmaFence{{sums}}, Here::current());
        for (int step = 0; step < 4; ++step) {
            ir::WarpgroupMma product;
            product.array = sums, product.into = b.i32c(0), product.rows_apart = 16, product.columns = c.rows;
            product.a_tile = product.b_tile = tile;
            product.a_offset = b.i32c(8 * step), product.b_offset = b.i32c(8 * step + c.offset);
            b.put(product, Here::current()), product_line = __LINE__;
        }
        if (c.store_meanwhile) {
            const Ref row = b.op(BinaryOp::div, b.thread(), b.i32c(8)),
                      chunk = b.op(BinaryOp::mod, b.thread(), b.i32c(8));
            store(words, 0, row, chunk, b.mul(chunk, b.i32c(4)));
        }
        if (c.wait) b.put(ir::MmaWait{{sums}}, Here::current());
        for (int w = 0; w < 32; ++w) {
            const Ref at = b.add(b.mul(b.thread64(), b.i64c(32)), b.i64c(w));
            b.store(global(y, at), {b.word(sums, w)});
        }
    }
    void store(int words, int i, Ref row, Ref chunk, Ref column) {
        const Ref mixed = b.op(BinaryOp::bit_xor, chunk, b.op(BinaryOp::mod, row, b.i32c(8)));
        const Ref offset = b.add(b.mul(row, b.i32c(32)), b.mul(mixed, b.i32c(4)));
        b.store(access(ir::Space::shared, tile, {row, column}, offset, 4),
                {b.word(words, 4 * i), b.word(words, 4 * i + 1), b.word(words, 4 * i + 2), b.word(words, 4 * i + 3)}),
            store_line = __LINE__ - 1;
    }
    std::string error() const {
        std::vector<float> x(64 * 32), y(128 * 32);
        return error_of<UsageError>(b.executable(), {{x.data(), y.data()}, {}}, {.check = true, .workers = 1});
    }
};

}  // namespace

TEST_CASE("tensor cores multiply what lies in shared memory", "[host]") {
    const Product p(Product::Changes{});
    std::vector<float> x(64 * 32), y(128 * 32);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 13) - 6;
    for (bool check : {true, false}) {
        p.b.executable().run({{x.data(), y.data()}, {}}, {.check = check, .workers = 1});
        for (int t = 0; t < 128; ++t)
            for (int w = 0; w < 32; ++w) {  // sixteen words of a row, two of each 8 columns, then of the row 8 below
                const int row = t / 32 * 16 + t % 32 / 4 + w / 16 * 8, column = w % 16 / 2 * 8 + t % 4 * 2 + w % 2;
                float sum = 0;
                for (int k = 0; k < 32; ++k)
                    sum += x[static_cast<std::size_t>(row * 32 + k)] * x[static_cast<std::size_t>(column * 32 + k)];
                REQUIRE(y[static_cast<std::size_t>(t * 32 + w)] == sum);
            }
    }
}

TEST_CASE("operands of tensor cores are ordered, fenced and left alone", "[host]") {
    CHECK(Product(Product::Changes{}).error().empty());
    CHECK_THAT(Product({.fence = false}).error(),
               Contains("kernel 'product': a product reads 'tile', which threads have written to without a fence"));
    CHECK_THAT(Product({.barrier = false}).error(),
               Contains("a product reads 'tile', not ordered after the store by thread") && Contains("a race"));
    CHECK_THAT(Product({.store_meanwhile = true}).error(),
               Contains("the store to tile[0, 0…3] changes what a product that is under way reads, started at"));
    CHECK_THAT(Product({.offset = 32 * 8}).error(),
               Contains("a product reads elements 256 to 2279 of 'tile', which has 2048"));
}

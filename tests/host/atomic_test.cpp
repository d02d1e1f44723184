#include <catch2/catch.hpp>

#include "builder.hpp"
#include "dsl/base/error.hpp"

// Atomic additions: no worker's is lost, masked ones do not happen, and they are checked like any access.

using namespace host_test;

namespace {

ir::AtomicAdd add(int memory, Ref index, Ref value, Ref predicate = nullptr) {
    return {global(memory, index, 1, predicate), value};
}

}  // namespace

TEST_CASE("additions of all workers arrive", "[host]") {
    constexpr int threads = 64, blocks = 500;
    Builder b("count", threads);
    b.grid({b.i64c(blocks)});
    const int wide = b.vector_tensor("wide", i64, b.i64c(2)), narrow = b.vector_tensor("narrow", u32, b.i64c(8));
    const Ref odd = b.op(BinaryOp::eq, b.op(BinaryOp::bit_and, b.thread(), b.i32c(1)), b.i32c(1));
    b.put(add(wide, b.i64c(0), b.add(b.block(), b.thread64())), {});
    b.put(add(wide, b.i64c(1), b.i64c(-1), odd), {});
    b.put(add(narrow, b.op(BinaryOp::bit_and, b.thread64(), b.i64c(7)), b.constant(u32, 3)), {});
    for (const bool check : {true, false}) {
        std::int64_t sums[2] = {5, 7};
        std::uint32_t parts[8] = {0xFFFFFFFF, 1, 2, 3, 4, 5, 6, 7};
        b.executable().run({{sums, parts}, {}}, {.check = check, .workers = 4});
        CHECK(sums[0] ==
              5 + std::int64_t{threads} * blocks * (blocks - 1) / 2 + std::int64_t{blocks} * threads * 63 / 2);
        CHECK(sums[1] == 7 - blocks * threads / 2);
        CHECK(parts[0] == blocks * threads / 8 * 3 - 1);  // wraps
        for (std::uint32_t i = 1; i < 8; ++i) CHECK(parts[i] == i + blocks * threads / 8 * 3);
    }
}

TEST_CASE("an addition out of bounds is reported", "[host]") {
    Builder b("count", 32);
    b.grid({b.i64c(1)});
    const int sums = b.vector_tensor("sums", i64, b.i64c(31));
    b.put(add(sums, b.thread64(), b.i64c(1)), Here::current());
    std::int64_t memory[32] = {};
    CHECK_THAT(error_of<UsageError>(b.executable(), {{memory}, {}}), Catch::Contains("sums[31]"));
    CHECK(memory[0] == 0);
}

TEST_CASE("only whole numbers of 32 and 64 bits can be added", "[host]") {
    for (const Element type : {f32, i16, u8}) {
        Builder b("count", 32);
        b.grid({b.i64c(1)});
        const int sums = b.vector_tensor("sums", type, b.i64c(1));
        b.put(add(sums, b.i64c(0), b.constant(type, 1)), {});
        float memory = 0;
        CHECK_THAT(error_of<InternalError>(b.executable(), {{&memory}, {}}), Catch::Contains("cannot move"));
    }
}

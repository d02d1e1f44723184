#include <catch2/catch.hpp>

#include "builder.hpp"
#include "dsl/base/error.hpp"

using namespace host_test;
using Catch::Matchers::Contains;

namespace {

/// Runs with one i64 scalar n and one i64 output a thread; returns thread 5's.
std::int64_t run(const Builder& b, std::int64_t n) {
    std::vector<std::int64_t> out(32);
    b.executable().run({{out.data()}, {static_cast<std::uint64_t>(n)}});
    return out[5];
}

struct LoopKernel {
    Builder b{"loops", 32};
    Ref n = b.scalar("n");
    int y = b.vector_tensor("y", i64, b.i64c(32));

    LoopKernel() { b.grid({b.i64c(1)}); }
    void give(Ref value) { b.store(global(y, b.thread64()), {value}); }
};

}  // namespace

TEST_CASE("a serial loop carries its words from turn to turn", "[host]") {
    LoopKernel k;
    Builder& b = k.b;
    const int r = b.array("sum", i64, 1, 1);
    b.set(r, 0, b.thread64());
    b.loop(b.i64c(1), k.n, b.i64c(2), false, [&](Ref i) { b.set(r, 0, b.add(b.mul(b.word(r, 0), b.i64c(3)), i)); });
    k.give(b.word(r, 0));
    for (std::int64_t n : {0, 1, 2, 3, 8}) {
        std::int64_t expected = 5;
        for (std::int64_t i = 1; i < n; i += 2) expected = expected * 3 + i;
        CHECK(run(b, n) == expected);
    }
}

TEST_CASE("words that change places in a loop do so at once", "[host]") {
    LoopKernel k;
    Builder& b = k.b;
    const int r = b.array("pair", i64, 1, 2);
    b.set(r, 0, b.i64c(0));
    b.set(r, 1, b.i64c(1));
    b.loop(b.i64c(0), k.n, b.i64c(1), false, [&](Ref) {
        const Ref old = b.let(b.word(r, 0));
        b.set(r, 0, b.word(r, 1));
        b.set(r, 1, b.add(old, b.word(r, 1)));
    });
    k.give(b.word(r, 0));
    const std::int64_t fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21};
    for (std::int64_t n = 0; n < 9; ++n) CHECK(run(b, n) == fibonacci[n]);

    LoopKernel swapped;
    const int s = swapped.b.array("pair", i64, 1, 2);
    swapped.b.set(s, 0, swapped.b.thread64());
    swapped.b.set(s, 1, swapped.b.i64c(100));
    swapped.b.loop(swapped.b.i64c(0), swapped.n, swapped.b.i64c(1), false, [&](Ref) {
        const Ref old = swapped.b.let(swapped.b.word(s, 0));
        swapped.b.set(s, 0, swapped.b.word(s, 1));
        swapped.b.set(s, 1, old);
    });
    swapped.give(swapped.b.word(s, 0));
    for (std::int64_t n = 0; n < 5; ++n) CHECK(run(swapped.b, n) == (n % 2 == 0 ? 5 : 100));
}

TEST_CASE("nested loops, with what does not change computed outside", "[host]") {
    LoopKernel k;
    Builder& b = k.b;
    const int r = b.array("sum", i64, 1, 1);
    b.set(r, 0, b.i64c(0));
    b.loop(b.i64c(0), k.n, b.i64c(1), false, [&](Ref i) {
        const Ref square = b.mul(i, i);
        const int inner = b.array("inner", i64, 1, 1);
        b.set(inner, 0, square);
        b.loop(i, k.n, b.i64c(1), false, [&](Ref j) {
            b.loop(b.i32c(0), b.i32c(3), b.i32c(1), true, [&](Ref u) {
                b.set(inner, 0, b.add(b.word(inner, 0), b.mul(b.add(b.mul(square, j), b.thread64()), b.cast(i64, u))));
            });
        });
        b.set(r, 0, b.add(b.word(r, 0), b.word(inner, 0)));
    });
    k.give(b.add(b.word(r, 0), b.mul(k.n, k.n)));
    for (std::int64_t n : {0, 1, 4, 7}) {
        std::int64_t sum = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            sum += i * i;
            for (std::int64_t j = i; j < n; ++j) sum += 3 * (i * i * j + 5);
        }
        CHECK(run(b, n) == sum + n * n);
    }
}

TEST_CASE("a value of the loop's last turn is read after it", "[host]") {
    LoopKernel k;
    Builder& b = k.b;
    const int r = b.array("last", i64, 1, 2);
    int line = 0;
    b.loop(b.i64c(0), k.n, b.i64c(1), false, [&](Ref i) { b.set(r, 1, b.mul(i, b.thread64())); });
    const Ref last = b.word(r, 1);
    line = __LINE__ - 1;
    k.give(last);
    CHECK(run(b, 4) == 15);
    std::vector<std::int64_t> out(32);
    const std::string text = error_of<UsageError>(b.executable(), {{out.data()}, {0}});
    CHECK_THAT(text, Contains("word 1 of the register array 'last' is read before anything has been written to it"));
    CHECK_THAT(text, Contains("loop_test.cpp:" + std::to_string(line) + ":"));
    CHECK(error_of<UsageError>(b.executable(), {{out.data()}, {0}}, {.check = false, .workers = 1}).empty());
}

TEST_CASE("a word that is read in the first turn before it is written is undefined", "[host]") {
    LoopKernel k;
    Builder& b = k.b;
    const int r = b.array("sum", i64, 1, 1);
    b.loop(b.i64c(0), k.n, b.i64c(1), false, [&](Ref i) { b.set(r, 0, b.add(b.word(r, 0), i)); });
    std::vector<std::int64_t> out(32);
    CHECK_THAT(error_of<UsageError>(b.executable(), {{out.data()}, {2}}),
               Contains("word 0 of the register array 'sum'"));
    CHECK(error_of<UsageError>(b.executable(), {{out.data()}, {0}}).empty());
}

TEST_CASE("an array declared in a loop starts undefined in every turn", "[host]") {
    LoopKernel k;
    Builder& b = k.b;
    b.loop(b.i64c(0), b.i64c(2), b.i64c(1), false, [&](Ref) {
        const int r = b.array("fresh", i64, 1, 1);
        k.give(b.word(r, 0));
        b.set(r, 0, b.i64c(1));
    });
    std::vector<std::int64_t> out(32);
    CHECK_THAT(error_of<UsageError>(b.executable(), {{out.data()}, {0}}), Contains("'fresh'"));
}

TEST_CASE("barriers inside a serial loop stop and resume it", "[host]") {
    // Each turn rotates the values by one place through shared memory.
    Builder b("rotate", 64);
    const Ref n = b.scalar("n");
    const int y = b.vector_tensor("y", i32, b.i64c(64));
    const int tile = b.tile("tile", i32, {64}, 0);
    b.grid({b.i64c(2)});
    const int r = b.array("r", i32, 1, 1);
    b.set(r, 0, b.thread());
    b.loop(b.i64c(0), n, b.i64c(1), false, [&](Ref) {
        b.store(shared(tile, b.thread()), {b.word(r, 0)});
        b.barrier();
        b.load(shared(tile, b.op(BinaryOp::mod, b.add(b.thread(), b.i32c(1)), b.i32c(64))), r, 0);
        b.barrier();
    });
    b.store(global(y, b.thread64()), {b.word(r, 0)});
    std::vector<std::int32_t> out(64);
    b.executable().run({{out.data()}, {100}}, {.check = true, .workers = 1});
    for (int t = 0; t < 64; ++t) CHECK(out[static_cast<std::size_t>(t)] == (t + 100) % 64);
}

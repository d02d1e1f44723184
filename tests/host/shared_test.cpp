#include <catch2/catch.hpp>
#include <numeric>

#include "builder.hpp"
#include "dsl/base/error.hpp"
#include "dsl/host/history.hpp"

using namespace host_test;
using Catch::Matchers::Contains;

namespace {

/// Every thread stores its value and loads that of thread (t + distance) % 128.
struct Exchange {
    Builder b{"exchange"};
    int store_line = 0, load_line = 0;

    Exchange(bool with_barrier, int distance, bool store_all = true) {
        const int x = b.vector_tensor("x", i32, b.i64c(128)), y = b.vector_tensor("y", i32, b.i64c(128));
        const int tile = b.tile("tile", i32, {128}, 0);
        b.grid({b.i64c(3)});
        const Ref t = b.thread();
        const int r = b.array("r", i32, 1, 2);
        b.load(global(x, b.thread64()), r, 0);
        const Ref some = store_all ? nullptr : b.less(t, b.i32c(127));
        b.store(shared(tile, t, 1, some), {b.word(r, 0)}), store_line = __LINE__;
        if (with_barrier) b.barrier();
        const Ref partner = b.op(BinaryOp::mod, b.add(t, b.i32c(distance)), b.i32c(128));
        b.load(shared(tile, partner), r, 1), load_line = __LINE__;
        b.store(global(y, b.thread64(), 1, b.op(BinaryOp::eq, b.block(), b.i64c(2))), {b.word(r, 1)});
    }

    std::string race() const {
        std::vector<std::int32_t> x(128), y(128);
        return error_of<UsageError>(b.executable(), {{x.data(), y.data()}, {}});
    }
};

std::string line(int n) { return "shared_test.cpp:" + std::to_string(n); }

}  // namespace

TEST_CASE("threads exchange values through shared memory and a barrier", "[host]") {
    for (int distance : {1, 37, 64}) {
        const Exchange e(true, distance);
        std::vector<std::int32_t> x(128), y(128);
        std::iota(x.begin(), x.end(), 1000);
        for (bool check : {true, false}) {
            e.b.executable().run({{x.data(), y.data()}, {}}, {.check = check, .workers = 1});
            for (int t = 0; t < 128; ++t) REQUIRE(y[static_cast<std::size_t>(t)] == 1000 + (t + distance) % 128);
        }
    }
}

TEST_CASE("without the barrier the race is reported with both lines", "[host]") {
    const Exchange warp_apart(false, 32);
    CHECK_THAT(warp_apart.race(),
               Contains("race on shared memory: the load from tile[32] by thread 0 is not ordered after the "
                        "store of 'tile' by thread 32"));
    CHECK_THAT(warp_apart.race(), Contains(line(warp_apart.load_line)) && Contains(line(warp_apart.store_line)));
    CHECK_THAT(warp_apart.race(), Contains("kernel 'exchange'") && Contains("block [0] of [3]"));
    CHECK_THAT(Exchange(false, 1).race(), Contains("tile[1] by thread 0") && Contains("by thread 1 "));
    CHECK(Exchange(false, 0).race().empty());  // its own value
}

TEST_CASE("shared memory of an earlier block counts as never written", "[host]") {
    const Exchange e(true, 1, false);
    CHECK_THAT(e.race(), Contains("tile[127] reads shared memory that nothing has written in this block"));

    Builder b("second_block", 32);
    const int tile = b.tile("tile", i32, {32}, 0);
    const int y = b.vector_tensor("y", i32, b.i64c(32));
    b.grid({b.i64c(2)});
    b.store(shared(tile, b.thread(), 1, b.op(BinaryOp::eq, b.block(), b.i64c(0))), {b.thread()});
    const int r = b.array("r", i32, 1, 1);
    b.load(shared(tile, b.thread()), r, 0);
    b.store(global(y, b.thread64(), 1, b.op(BinaryOp::eq, b.block(), b.i64c(0))), {b.word(r, 0)});
    std::vector<std::int32_t> out(32);
    CHECK_THAT(error_of<UsageError>(b.executable(), {{out.data()}, {}}, {.check = true, .workers = 1}),
               Contains("nothing has written") && Contains("block [1] of [2]"));
}

TEST_CASE("two threads that store to one element race, and so does a store after another's load", "[host]") {
    Builder twice("twice", 64);
    const int tile = twice.tile("tile", i32, {64}, 0);
    twice.grid({twice.i64c(1)});
    twice.store(shared(tile, twice.op(BinaryOp::div, twice.thread(), twice.i32c(2))), {twice.thread()});
    CHECK_THAT(error_of<UsageError>(twice.executable(), {}),
               Contains("the store to tile[0] by thread 1") && Contains("by thread 0 "));

    for (bool second_barrier : {true, false}) {
        Builder b("overwrite", 64);
        const int t = b.tile("tile", i32, {64}, 0);
        b.grid({b.i64c(1)});
        const int r = b.array("r", i32, 1, 1);
        b.store(shared(t, b.thread()), {b.thread()});
        b.barrier();
        b.load(shared(t, b.op(BinaryOp::bit_xor, b.thread(), b.i32c(1))), r, 0);
        if (second_barrier) b.barrier();
        b.store(shared(t, b.thread()), {b.word(r, 0)});
        const std::string text = error_of<UsageError>(b.executable(), {});
        if (second_barrier) {
            CHECK(text.empty());
        } else {
            CHECK_THAT(
                text, Contains("the store to tile[0] by thread 0 is not ordered after the load of 'tile' by thread 1"));
        }
    }
}

TEST_CASE("tiles that share bytes are one memory", "[host]") {
    for (bool with_barrier : {true, false}) {
        Builder b("overlap", 32);
        const int words = b.tile("words", u32, {32}, 0), bytes = b.tile("bytes", u8, {128}, 0);
        const int y = b.vector_tensor("y", u8, b.i64c(128));
        b.grid({b.i64c(1)});
        b.store(shared(words, b.thread()), {b.cast(u32, b.mul(b.thread(), b.i32c(0x01010101)))});
        if (with_barrier) b.barrier();
        const int r = b.array("r", u8, 4, 1);
        const Ref mirrored = b.op(BinaryOp::sub, b.i32c(31), b.thread());
        b.load(shared(bytes, b.mul(mirrored, b.i32c(4)), 4), r, 0);
        b.store(global(y, b.mul(b.thread64(), b.i64c(4)), 4), {b.word(r, 0)});
        alignas(4) std::uint8_t out[128];
        const std::string text = error_of<UsageError>(b.executable(), {{out}, {}});
        if (with_barrier) {
            CHECK(text.empty());
            for (int i = 0; i < 128; ++i) CHECK(out[i] == 31 - i / 4);
        } else {
            CHECK_THAT(text, Contains("the load from bytes[124…127] by thread 0") &&
                                 Contains("store of 'words' by thread 31"));
        }
    }
}

TEST_CASE("a swizzled tile: offsets follow the swizzle and are held to it", "[host]") {
    // Row r, column c of [8, 8] lies at 8 r + (c ^ r): bits 3…5 of the offset are folded into bits 0…2.
    for (bool swizzled : {true, false}) {
        Builder b("transpose", 64);
        const int tile = b.tile("tile", i32, {8, 8}, 0, {3, 0, 3});
        const int y = b.vector_tensor("y", i32, b.i64c(64));
        b.grid({b.i64c(1)});
        const Ref row = b.op(BinaryOp::div, b.thread(), b.i32c(8)), col = b.op(BinaryOp::mod, b.thread(), b.i32c(8));
        const auto at = [&](Ref r, Ref c) {
            return b.add(b.mul(r, b.i32c(8)), swizzled ? b.op(BinaryOp::bit_xor, c, r) : c);
        };
        const int r = b.array("r", i32, 1, 1);
        b.store(access(ir::Space::shared, tile, {row, col}, at(row, col)), {b.thread()});
        b.barrier();
        b.load(access(ir::Space::shared, tile, {col, row}, at(col, row)), r, 0);
        b.store(global(y, b.thread64()), {b.word(r, 0)});
        std::vector<std::int32_t> out(64);
        const std::string text = error_of<InternalError>(b.executable(), {{out.data()}, {}});
        if (swizzled) {
            CHECK(text.empty());
            for (int i = 0; i < 64; ++i) CHECK(out[static_cast<std::size_t>(i)] == i % 8 * 8 + i / 8);
        } else {
            CHECK_THAT(text, Contains("the store to tile[1, 0] goes to element offset 8") && Contains("say 9"));
        }
    }
}

TEST_CASE("an access past a shared tile is reported", "[host]") {
    Builder b("past", 64);
    const int tile = b.tile("tile", i32, {63}, 0);
    b.grid({b.i64c(1)});
    b.store(shared(tile, b.thread()), {b.thread()});
    CHECK_THAT(error_of<UsageError>(b.executable(), {}), Contains("tile[63] lies outside of its extents [63]"));
}

TEST_CASE("barriers of a part of the warps order only these", "[host]") {
    using Verdict = host::SharedHistory::Verdict;
    host::SharedHistory history(64, 4, 96);
    history.begin_block();
    CHECK(history.write(0, 4, 0, 7).verdict == Verdict::fine);
    history.barrier(0, 64);
    CHECK(history.read(0, 4, 33, 8).verdict == Verdict::fine);
    const auto outsider = history.read(0, 4, 65, 9);
    CHECK(outsider.verdict == Verdict::after_write);
    CHECK(outsider.other.thread == 0);
    CHECK(outsider.other.access == 7);
    history.barrier(32, 64);  // thread 65 learns of thread 0 through warp 1
    CHECK(history.read(0, 4, 65, 9).verdict == Verdict::fine);
    CHECK(history.write(0, 4, 1, 10).verdict == Verdict::after_read);
    history.begin_block();
    CHECK(history.read(0, 4, 0, 11).verdict == Verdict::unwritten);
}

TEST_CASE("of many readers one that conflicts is remembered", "[host]") {
    using Verdict = host::SharedHistory::Verdict;
    for (int writer = 0; writer < 64; ++writer) {
        host::SharedHistory history(4, 4, 64);
        history.begin_block();
        history.write(0, 4, 0, 0);
        history.barrier(0, 64);
        for (int reader = 0; reader < 64; ++reader) history.read(0, 4, reader, 1);
        for (int reader = 63; reader >= 0; --reader) history.read(0, 4, reader, 1);
        const auto found = history.write(0, 4, writer, 2);
        CHECK(found.verdict == Verdict::after_read);
        CHECK(found.other.thread != writer);
    }
}

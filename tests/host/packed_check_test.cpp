#include <catch2/catch.hpp>

#include "packed.hpp"

// The checks of accesses to packed elements.

using namespace host_test;
using Catch::Matchers::Contains;

namespace {

/// Each thread stores a vector to shared memory and loads that of the thread `distance` further, then stores it.
struct Exchange {
    Builder b{"exchange", threads};

    Exchange(Element type, int lanes, bool with_barrier, int distance, ir::Swizzle swizzle = {}) {
        const int pack = type == e2m1 ? std::min(lanes, 8) : 2;
        const int x = b.vector_tensor("x", type, b.i64c(lanes * threads));
        const int y = b.vector_tensor("y", type, b.i64c(lanes * threads));
        b.tile("other", f32, {4}, 0);
        const int tile = b.tile("tile", type, {lanes * threads}, 16, swizzle);
        b.grid({b.i64c(1)});
        const int r = b.array("r", type, pack, 2 * lanes / pack);
        const auto words = [&](int half) {
            std::vector<Ref> all;
            for (int i = 0; i < lanes / pack; ++i) all.push_back(b.word(r, half * lanes / pack + i));
            return all;
        };
        const auto place = [&](Ref thread) {
            const Ref at = b.mul(thread, b.i32c(lanes));
            if (swizzle.bits == 0) return shared(tile, at, lanes);
            const Ref bits = b.op(BinaryOp::bit_and, b.op(BinaryOp::shr, at, b.i32c(swizzle.base + swizzle.shift)),
                                  b.i32c((1 << swizzle.bits) - 1));
            const Ref moved = b.op(BinaryOp::bit_xor, at, b.op(BinaryOp::shl, bits, b.i32c(swizzle.base)));
            return access(ir::Space::shared, tile, {at}, moved, lanes);
        };
        b.load(global(x, b.mul(b.thread64(), b.i64c(lanes)), lanes), r, 0);
        b.store(place(b.thread()), words(0));
        if (with_barrier) b.barrier();
        const Ref partner = b.op(BinaryOp::mod, b.add(b.thread(), b.i32c(distance)), b.i32c(threads));
        b.load(place(partner), r, lanes / pack);
        b.store(global(y, b.mul(b.thread64(), b.i64c(lanes)), lanes), words(1));
    }
};

}  // namespace

TEST_CASE("packed vectors out of bounds are reported", "[host]") {
    CHECK_THAT(PackedCopy(e2m1, 8, 8).error(20), Contains("the load from x[16…23] lies outside of its extents [20]"));
    CHECK_THAT(PackedCopy(e2m1, 2, 2, false).error(62), Contains("x[62…63]") && Contains("thread 31"));
    CHECK_THAT(PackedCopy(e5m6, 16, 2).error(24), Contains("x[16…31] lies outside of its extents [24]"));
    CHECK_THAT(PackedCopy(e5m6, 8, 2, true, -8).error(64), Contains("x[-8…-1]"));
    CHECK(PackedCopy(e5m6, 16, 2).error(32).empty());
}

TEST_CASE("packed vectors must be aligned to the largest power of two in their bytes", "[host]") {
    CHECK_THAT(PackedCopy(e2m1, 8, 8).error(16, 2), Contains("moves 4 bytes at once from an address that is 2 bytes "
                                                             "past a multiple of 4"));
    CHECK_THAT(PackedCopy(e2m1, 32, 8).error(32, 8), Contains("moves 16 bytes") && Contains("8 bytes past a multiple"));
    CHECK(PackedCopy(e2m1, 2, 2).error(16, 1).empty());
    CHECK_THAT(PackedCopy(e5m6, 8, 2).error(16, 2), Contains("moves 12 bytes at once from an address that is 2 bytes "
                                                             "past a multiple of 4"));
    CHECK(PackedCopy(e5m6, 8, 2).error(16, 4).empty());
    CHECK_THAT(PackedCopy(e5m6, 16, 2).error(16, 4), Contains("moves 24 bytes") && Contains("past a multiple of 8"));
    CHECK(PackedCopy(e5m6, 16, 2).error(16, 8).empty());
    CHECK_THAT(PackedCopy(e5m6, 32, 2).error(32, 8), Contains("moves 48 bytes") && Contains("past a multiple of 16"));
    CHECK(PackedCopy(e5m6, 32, 2).error(32, 16).empty());
}

TEST_CASE("packed vectors begin where a group of elements does", "[host]") {
    CHECK_THAT(PackedCopy(e2m1, 2, 2, true, 1).error(3),
               Contains("the load from x[1…2] begins at element 1 of memory in which 2 elements of e2m1 share their "
                        "bytes") &&
                   Contains("multiples of 2"));
    CHECK_THAT(PackedCopy(e5m6, 8, 2, true, 4).error(12),
               Contains("x[4…11] begins at element 4") && Contains("8 elements of e5m6"));
}

TEST_CASE("an offset that its coordinates do not say is noticed for packed elements", "[host]") {
    Builder b("crooked", threads);
    const int x = b.tensor("x", e2m1, {{b.i64c(threads), b.scalar("pitch")}, {b.i64c(8), b.i64c(1)}});
    b.grid({b.i64c(1)});
    const int r = b.array("r", e2m1, 8, 1);
    b.load(access(ir::Space::global, x, {b.thread64(), b.i64c(0)}, b.mul(b.thread64(), b.i64c(8)), 8), r, 0);
    const Memory memory(4096, 0, 0);
    CHECK_NOTHROW(b.executable().run({{memory.first}, {8}}));
    CHECK_THAT(error_of<InternalError>(b.executable(), {{memory.first}, {16}}),
               Contains("x[1, 0…7] goes to element offset 8") && Contains("say 16"));
}

TEST_CASE("races on packed shared tiles are found by the byte", "[host]") {
    const Memory x(4096, 0, 0x5A), y(4096, 0, 0);
    const host::Arguments arguments{{x.first, y.first}, {}};
    for (const auto& vector : {std::pair{e2m1, 2}, {e2m1, 8}, {e2m1, 32}, {e5m6, 8}, {e5m6, 32}}) {
        INFO(name_of(vector.first) << " lanes " << vector.second);
        const auto race = [&](bool barrier, int distance) {
            const Exchange exchange(vector.first, vector.second, barrier, distance);
            return error_of<UsageError>(exchange.b.executable(), arguments);
        };
        CHECK(race(false, 0).empty());
        CHECK(race(true, 1).empty());
        CHECK_THAT(race(false, 1), Contains("race on shared memory: the load from tile[") && Contains("by thread 0"));
    }
}

TEST_CASE("packed shared tiles keep what is stored, swizzled too", "[host]") {
    for (const ir::Swizzle swizzle : {ir::Swizzle{}, ir::Swizzle{2, 3, 3}}) {
        const Exchange exchange(e2m1, 8, true, 1, swizzle);
        const Memory x(4 * threads, 0, 0), y(4 * threads, 0, 0);
        for (std::size_t i = 0; i < 4 * threads; ++i) x.first[i] = static_cast<std::uint8_t>(i * 5 + 1);
        for (bool check : {true, false}) {
            std::fill(y.first, y.first + 4 * threads, std::uint8_t{0});
            exchange.b.executable().run({{x.first, y.first}, {}}, {.check = check, .workers = 1});
            CHECK(std::equal(x.first + 4, x.first + 4 * threads, y.first));
            CHECK(std::equal(x.first, x.first + 4, y.first + 4 * (threads - 1)));
        }
    }
}

TEST_CASE("reading packed shared memory that nothing wrote is reported", "[host]") {
    for (Element type : {e2m1, e5m6}) {
        Builder b("hollow", threads);
        const int tile = b.tile("tile", type, {8 * threads}, 0);
        b.grid({b.i64c(1)});
        const int pack = type == e2m1 ? 8 : 2;
        const int r = b.array("r", type, pack, 8 / pack);
        const Ref at = b.mul(b.thread(), b.i32c(8));
        std::vector<Ref> words(static_cast<std::size_t>(8 / pack), b.constant(type, 1, pack));
        b.store(shared(tile, at, 8, b.less(b.thread(), b.i32c(31))), words);
        b.barrier();
        b.load(shared(tile, at, 8), r, 0);
        CHECK_THAT(error_of<UsageError>(b.executable(), {}), Contains("nothing has written") && Contains("thread 31"));
    }
}

TEST_CASE("numbers of lanes that no instruction moves are refused", "[host]") {
    for (const auto& [type, lanes] : {std::pair{e2m1, 1}, {e2m1, 6}, {e2m1, 12}, {e5m6, 1}, {e5m6, 2}, {e5m6, 24}}) {
        const PackedCopy copy(type, lanes, 1);
        const Memory x(64, 0, 0), y(64, 0, 0);
        CHECK_THAT(error_of<InternalError>(copy.b.executable(), {{x.first, y.first}, {0}}),
                   Contains("cannot move " + std::to_string(lanes) + " elements of " + name_of(type)));
    }
}

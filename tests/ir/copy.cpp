#include "dsl/ir/effects.hpp"
#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "tests/ir/verify_support.hpp"

// Asynchronous copies to shared memory in both stages.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

/// A place in shared memory for 64 FP32.
SharedTile landing(int line_number, std::int64_t byte_offset) {
    return {"landing", f32, {64}, {}, line(static_cast<std::uint32_t>(line_number)), byte_offset};
}
TensorParam numbers_of(Build& s) { return {"z", f32, Role::input, {{s.wide(64), s.wide(1)}}, 16, line(4)}; }

/// The recorded sample with a copy of z[8 … 39] to landing[0 … 31] and the wait for it.
struct Copying : Recorded {
    Copying() {
        p.tensors.push_back(numbers_of(*this));
        p.shared.push_back(landing(4, -1));
        p.body.push_back(
            statement(Copy{{Space::global, 2, {{wide(8), 32, false}}},
                           {Space::shared, static_cast<int>(p.shared.size()) - 1, {{wide(0), 32, false}}}}));
        p.body.push_back(statement(WaitCopies{}));
    }
    Copy& copy() { return *p.body[p.body.size() - 2].as<Copy>(); }
};

/// The lowered sample with a copy of 16 bytes, zeros where the row is outside.
struct CopyingVector : Lowered {
    CopyingVector() {
        p.tensors.push_back(numbers_of(*this));
        p.shared.push_back(landing(4, p.shared_bytes));
        p.shared_bytes += 256;
        const int tile = static_cast<int>(p.shared.size()) - 1;
        p.body.push_back(statement(CopyVector{{Space::global, 2, {wide(8)}, 0, wide(8), inside, 4},
                                              {Space::shared, tile, {narrow(4)}, 0, narrow(4), nullptr, 4}}));
        p.body.push_back(statement(WaitCopies{}));
    }
    CopyVector& copy() { return *p.body[p.body.size() - 2].as<CopyVector>(); }
};

/// The lowered sample with a phase of mbarriers: a row of 128 bytes, its arrival and the wait for both.
struct Counting : Lowered {
    int full;
    Counting() {
        p.tensors.push_back(numbers_of(*this));
        p.shared.push_back(landing(4, p.shared_bytes));
        p.shared.push_back({"full", u64, Shape{2}, {}, line(4), p.shared_bytes + 256});
        p.shared_bytes += 384;
        full = static_cast<int>(p.shared.size()) - 1;
        p.body.push_back(statement(InitMbarriers{full}));
        p.body.push_back(statement(CopyVector{{Space::global, 2, {wide(8)}, 0, wide(8), inside, 32},
                                              {Space::shared, full - 1, {narrow(0)}, 0, narrow(0), nullptr, 32},
                                              full,
                                              narrow(1)}));
        p.body.push_back(statement(CommitCopies{full, narrow(1)}));
        p.body.push_back(statement(WaitCopies{0, full, narrow(1), narrow(0)}));
    }
    Statement& from_end(std::size_t n) { return p.body[p.body.size() - n]; }
    CopyVector& copy() { return *from_end(3).as<CopyVector>(); }
    CommitCopies& arrival() { return *from_end(2).as<CommitCopies>(); }
    WaitCopies& wait() { return *from_end(1).as<WaitCopies>(); }
};

}  // namespace

TEST_CASE("copies print, read the tensor and write the tile") {
    Copying recorded;
    CHECK(verdict(recorded.p) == "");
    CHECK(print_line(recorded.p, recorded.p.body[recorded.p.body.size() - 2]) ==
          "copy z.block[32] at (8) to landing.block[32] at (0)");
    CHECK(print_line(recorded.p, recorded.p.body.back()) == "wait for copies");
    CopyingVector lowered;
    CHECK(verdict(lowered.p) == "");
    CHECK(print_line(lowered.p, lowered.p.body[lowered.p.body.size() - 2]) ==
          "copy z[8] x4 along 0 at 8 if row < tokens to landing[4] x4 along 0 at 4");
    const std::vector<MemoryId> tensor{{Space::global, 2}};
    const std::vector<MemoryId> tile{{Space::shared, static_cast<int>(lowered.p.shared.size()) - 1}};
    const Statement& moved = lowered.p.body[lowered.p.body.size() - 2];
    CHECK(reads_of(moved).memories == tensor);
    CHECK(writes_of(moved).memories == tile);
    CHECK(writes_of(lowered.p.body.back()).empty());
}

TEST_CASE("recorded copies go from an input to a shared tile of its type and extents") {
    using C = Copying;
    const Breach<C> breaches[] = {
        {"role", "an output tensor is copied from", [](C& s) { s.p.tensors[2].role = Role::output; }},
        {"operand-type", "not the same type", [](C& s) { s.p.tensors[2].type = i32; }},
        {"operand-shape", "not the same extents", [](C& s) { s.copy().to.axes[0].extent = 16; }},
        {"copy", "to shared memory", [](C& s) { s.copy().to = s.copy().from; }},
    };
    check_breaches(breaches);
}

TEST_CASE("lowered copies move 4, 8 or 16 bytes") {
    using C = CopyingVector;
    const Breach<C> breaches[] = {
        {"role", "an output tensor is copied from", [](C& s) { s.p.tensors[2].role = Role::output; }},
        {"lanes", "the same lanes", [](C& s) { s.copy().to.lanes = 2; }},
        {"lanes", "4, 8 or 16 bytes",
         [](C& s) {
             s.p.tensors[2].type = s.p.shared.back().type = bf16;
             s.copy().from.lanes = s.copy().to.lanes = 1;
         }},
        {"offset-type", "i64 in global memory", [](C& s) { s.copy().from.offset = s.narrow(8); }},
    };
    check_breaches(breaches);
}

TEST_CASE("groups and mbarriers print, and are written and read", "[ir]") {
    CopyingVector grouped;
    grouped.p.body.back() = grouped.statement(CommitCopies{});
    grouped.p.body.push_back(grouped.statement(WaitCopies{2}));
    CHECK(verdict(grouped.p) == "");
    CHECK(print_line(grouped.p, grouped.p.body[grouped.p.body.size() - 2]) == "close the group of copies");
    CHECK(print_line(grouped.p, grouped.p.body.back()) == "wait for copies but 2 groups");
    CHECK(writes_of(grouped.p.body[grouped.p.body.size() - 2]).empty());

    Counting s;
    CHECK(verdict(s.p) == "");
    CHECK(print_line(s.p, s.from_end(4)) == "start full");
    CHECK(print_line(s.p, s.from_end(3)) ==
          "copy z[8] x32 along 0 at 8 if row < tokens to landing[0] x32 along 0 at 0, counted by full[1]");
    CHECK(print_line(s.p, s.from_end(2)) == "arrive at full[1]");
    CHECK(print_line(s.p, s.from_end(1)) == "wait for full[1], parity 0");
    const MemoryId full{Space::shared, s.full};
    for (const std::size_t n : {2u, 3u, 4u}) CHECK(writes_of(s.from_end(n)).touches(full));
    CHECK(reads_of(s.from_end(1)).touches(full));
    CHECK(writes_of(s.from_end(1)).empty());
}

TEST_CASE("what differs in a group or an mbarrier is not equal", "[ir]") {
    const auto change = [](auto&& by) {
        Counting a, b;
        CHECK(equal(a.p, b.p));
        by(b);
        return equal(a.p, b.p);
    };
    CHECK_FALSE(change([](Counting& s) { s.wait().pending = 1; }));
    CHECK_FALSE(change([](Counting& s) { s.wait().parity = s.narrow(1); }));
    CHECK_FALSE(change([](Counting& s) { s.wait().stage = s.narrow(0); }));
    CHECK_FALSE(change([](Counting& s) { s.arrival().stage = s.narrow(0); }));
    CHECK_FALSE(change([](Counting& s) { s.copy().mbarriers = -1; }));
    CHECK_FALSE(change([](Counting& s) { s.from_end(4).as<InitMbarriers>()->mbarriers = 0; }));
}

TEST_CASE("groups that may stay pending are a thread's own; mbarriers are started first", "[ir]") {
    using C = Counting;
    const Breach<C> breaches[] = {
        {"wait", "at least 0", [](C& s) { s.wait() = {-1}; }},
        {"wait", "0 where mbarriers count", [](C& s) { s.wait().pending = 1; }},
        {"wait", "a phase is one of an mbarrier", [](C& s) { s.wait().parity = nullptr; }},
        {"mbarrier", "a stage is one of mbarriers", [](C& s) { s.arrival().stage = nullptr; }},
        {"mbarrier", "used before they are started", [](C& s) { std::swap(s.from_end(4), s.from_end(3)); }},
        {"mbarrier", "a shared tile of u64 and rank 1",
         [](C& s) { s.from_end(4).as<InitMbarriers>()->mbarriers = s.full - 1; }},
        {"mbarrier", "started twice", [](C& s) { s.p.body.push_back(s.statement(InitMbarriers{s.full})); }},
        {"mbarrier", "neither loaded nor stored", [](C& s) { s.copy().to.memory = s.full; }},
        {"index-range", "no such memory", [](C& s) { s.from_end(4).as<InitMbarriers>()->mbarriers = 77; }},
        {"operand-type", "lowered i32", [](C& s) { s.wait().parity = s.wide(0); }},
        {"lanes", "a multiple of 16 bytes", [](C& s) { s.copy().from.lanes = s.copy().to.lanes = 6; }},
    };
    check_breaches(breaches);
}

TEST_CASE("what a thread copies at once divides the tile", "[ir]") {
    using C = Copying;
    const Breach<C> breaches[] = {
        {"per-thread", "a number for each axis", [](C& s) { s.copy().per_thread = Shape{1, 4}; }},
        {"per-thread", "divides the tile", [](C& s) { s.copy().per_thread = Shape{3}; }},
    };
    check_breaches(breaches);
    Copying s;
    s.copy().per_thread = Shape{4};
    CHECK(print_line(s.p, s.p.body[s.p.body.size() - 2]) ==
          "copy z.block[32] at (8) to landing.block[32] at (0) by [4]");
}

#include "dsl/ir/effects.hpp"
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
        {"role", "an input tensor", [](C& s) { s.p.tensors[2].role = Role::inout; }},
        {"operand-type", "not the same type", [](C& s) { s.p.tensors[2].type = i32; }},
        {"operand-shape", "not the same extents", [](C& s) { s.copy().to.axes[0].extent = 16; }},
        {"copy", "to shared memory", [](C& s) { s.copy().to = s.copy().from; }},
    };
    check_breaches(breaches);
}

TEST_CASE("lowered copies move 4, 8 or 16 bytes") {
    using C = CopyingVector;
    const Breach<C> breaches[] = {
        {"role", "an input tensor", [](C& s) { s.p.tensors[2].role = Role::output; }},
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

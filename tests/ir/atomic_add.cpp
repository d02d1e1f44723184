#include "dsl/ir/effects.hpp"
#include "dsl/ir/print.hpp"
#include "tests/ir/verify_support.hpp"

// Atomic additions in both stages.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

TensorParam counts(Build& s, Element type, Role role) {
    return {"counts", type, role, {{s.wide(8), s.wide(1)}}, 8, line(4)};
}

/// The recorded sample with a last statement that adds ones to counts[2 … 5].
struct Accumulating : Recorded {
    Accumulating() {
        p.tensors.push_back(counts(*this, i32, Role::inout));
        const Ref ones = node(i32, {4}, Broadcast{narrow(1)});
        p.body.push_back(statement(Accumulate{{Space::global, 2, {{wide(2), 4, false}}}, ones}));
    }
    Accumulate& sum() { return *p.body.back().as<Accumulate>(); }
};

/// The lowered sample with a last statement that adds 1 to counts[3].
struct Adding : Lowered {
    Adding() {
        p.tensors.push_back(counts(*this, i64, Role::inout));
        p.body.push_back(statement(AtomicAdd{{Space::global, 2, {wide(3)}, 0, wide(3), inside, 1}, wide(1)}));
    }
    AtomicAdd& sum() { return *p.body.back().as<AtomicAdd>(); }
};

}  // namespace

TEST_CASE("atomic additions print, and read and write their memory") {
    Accumulating recorded;
    CHECK(verdict(recorded.p) == "");
    CHECK(print_line(recorded.p, recorded.p.body.back()) == "atomic add broadcast(1, [4]) to counts.block[4] at (2)");
    Adding lowered;
    CHECK(verdict(lowered.p) == "");
    CHECK(print_line(lowered.p, lowered.p.body.back()) == "atomic add 1 to counts[3] at 3 if row < tokens");
    const std::vector<MemoryId> memory{{Space::global, 2}};
    for (const Statement* s : {&recorded.p.body.back(), &lowered.p.body.back()}) {
        CHECK(reads_of(*s).memories == memory);
        CHECK(writes_of(*s).memories == memory);
    }
}

TEST_CASE("recorded atomic additions are of whole numbers to inout tensors") {
    using A = Accumulating;
    const Breach<A> breaches[] = {
        {"role", "an inout tensor", [](A& s) { s.p.tensors[2].role = Role::output; }},
        {"operand-type", "not the memory's", [](A& s) { s.p.tensors[2].type = u32; }},
        {"operand-shape", "extents of the view", [](A& s) { s.sum().view.axes[0].extent = 3; }},
        {"atomic", "32 or 64 bits",
         [](A& s) {
             s.p.tensors[2].type = f32;
             s.sum().value = s.node(f32, {4}, Broadcast{s.real(1)});
         }},
        {"atomic", "32 or 64 bits",
         [](A& s) {
             s.p.tensors[2].type = i16;
             s.sum().value = s.node(i16, {4}, Broadcast{s.constant(i16, 1)});
         }},
        {"operand-type", "not the memory's",
         [](A& s) { s.sum().view = {Space::shared, 0, {{s.wide(0), 4, false}, {s.wide(0), 1, true}}}; }},
    };
    check_breaches(breaches);
}

TEST_CASE("atomic additions go to shared tiles too, by indices where wanted") {
    Accumulating recorded;
    const int tile = static_cast<int>(recorded.p.shared.size());
    recorded.p.shared.push_back({"own", i32, {8}, {}, line(4)});
    const Ref indices = recorded.node(i64, {4}, Coordinate{0});
    recorded.sum().view = {Space::shared, tile, {{indices, 4, false}}};
    CHECK(verdict(recorded.p) == "");
    CHECK(writes_of(recorded.p.body.back()).memories == std::vector<MemoryId>{{Space::shared, tile}});
    Adding lowered;
    lowered.p.shared.push_back({"own", i64, {8}, {}, line(4), 2048});
    lowered.p.shared_bytes = 4096;
    lowered.sum().access = {Space::shared, 1, {lowered.narrow(3)}, 0, lowered.narrow(3), lowered.inside, 1};
    CHECK(verdict(lowered.p) == "");
    CHECK(print_line(lowered.p, lowered.p.body.back()) == "atomic add 1 to own[3] at 3 if row < tokens");
}

TEST_CASE("lowered atomic additions move one element") {
    using A = Adding;
    const Breach<A> breaches[] = {
        {"role", "an inout tensor", [](A& s) { s.p.tensors[2].role = Role::input; }},
        {"operand-type", "not the memory's", [](A& s) { s.sum().value = s.narrow(1); }},
        {"lanes", "one element",
         [](A& s) {
             s.p.tensors[2].align = 16;
             s.sum().access.lanes = 2;
         }},
        {"coordinates", "a coordinate for each axis", [](A& s) { s.sum().access.coordinates.clear(); }},
        {"offset-type", "i64 in global memory", [](A& s) { s.sum().access.offset = s.narrow(3); }},
    };
    check_breaches(breaches);
}

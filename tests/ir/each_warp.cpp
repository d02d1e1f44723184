#include "dsl/ir/each_warp.hpp"

#include "dsl/ir/effects.hpp"
#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "dsl/ir/uniform.hpp"
#include "tests/ir/verify_support.hpp"

// Loops whose turns the warps of a block share out, in both stages.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

/// Each warp loads a number of x for its turn, adds it to a register of its own and stores it to its row of a tile.
struct Alone : Build {
    Alone() {
        p.name = "alone";
        p.stage = Stage::lowered;
        p.threads = 96;
        p.tensors = {{"x", f32, Role::input, {{wide(64), wide(1)}}, 16, line(2)}};
        p.grid = {wide(1)};
        p.shared = {{"rows", f32, Shape{8, 32}, {}, line(3), 0}};
        p.shared_bytes = 1024;
        p.arrays = {{"r", f32, 1, 1, ""}, {"outside", f32, 1, 1, ""}};
        p.locals = {"warp", "lane"};
        at = 10;
        const Ref thread = node(i32, {}, ThreadIndex{});
        p.body = {statement(Let{0, binary(BinaryOp::div, thread, narrow(32))}),
                  statement(Let{1, binary(BinaryOp::mod, thread, narrow(32))}), statement(Declare{1}),
                  statement(Set{1, narrow(0), real(0.0f)}), statement(Barrier{})};
        For loop{p.loops++, "item", cast(i64, warp()), wide(8), wide(3), false, {}};
        loop.each_warp = true;
        p.body.push_back(statement(std::move(loop)));
        const Ref item = node(i64, {}, LoopIndex{0}), lane = node(i32, {}, Local{1}), row = cast(i32, item);
        body().push_back(statement(Declare{0}));
        body().push_back(statement(LoadVector{{Space::global, 0, {item}, 0, item, nullptr, 1}, 0, narrow(0), nullptr}));
        body().push_back(statement(Barrier{}));
        body().push_back(statement(
            StoreVector{{Space::shared, 0, {row, lane}, 1, add(mul(row, narrow(32)), lane), nullptr, 1},
                        {add(node(f32, {}, Register{0, narrow(0)}), node(f32, {}, Register{1, narrow(0)}))}}));
    }
    Ref warp() { return node(i32, {}, Local{0}); }
    For& loop() { return *p.body[5].as<For>(); }
    Body& body() { return loop().body; }
};

/// As a writer records it: a row of x for each turn.
struct Shared : Build {
    Shared() {
        p.name = "shared_out";
        p.threads = 64;
        p.tensors = {{"x", f32, Role::inout, {{wide(8), wide(32)}, {wide(32), wide(1)}}, 16, line(2)}};
        p.variables = {{"s", f32, {}, line(3)}, {"t", f32, {32}, line(4)}};
        p.grid = {wide(1)};
        at = 10;
        p.body = {statement(Assign{0, real(1.0f)})};
        For loop{p.loops++, "i", wide(0), wide(8), wide(1), false, {}};
        loop.each_warp = true;
        p.body.push_back(statement(std::move(loop)));
        const View row{Space::global, 0, {{node(i64, {}, LoopIndex{0}), 1, true}, {wide(0), 32, false}}};
        load = bind(body(), node(f32, {32}, Load{row, real(0.0f), {}}));
        body().push_back(statement(Assign{1, load}));
        body().push_back(statement(Store{row, load}));
    }
    For& loop() { return *p.body[1].as<For>(); }
    Body& body() { return loop().body; }
    Ref load;
};

}  // namespace

TEST_CASE("turns that warps share out print in both stages", "[ir][each_warp]") {
    CHECK(verdict(Alone().p) == "");
    CHECK(verdict(Shared().p) == "");
    CHECK_THAT(print(Alone().p), Catch::Contains("    for each warp item in [i64(warp), 8) step 3 {"));
    CHECK_THAT(print(Shared().p), Catch::Contains("    for each warp i in [0, 8) {"));
}

TEST_CASE("a loop of warps reads and writes what is in it, and equals its like alone", "[ir][each_warp]") {
    Alone s;
    CHECK(reads_of(s.p.body[5]).memories == std::vector<MemoryId>{{Space::global, 0}});
    CHECK(writes_of(s.p.body[5]).memories == std::vector<MemoryId>{{Space::shared, 0}});
    CHECK(equal(Alone().p, Alone().p));
    s.loop().each_warp = false;
    CHECK_FALSE(equal(Alone().p, s.p));
    CHECK(has_each_warp(Alone().p));
    CHECK_FALSE(has_each_warp(s.p));
}

TEST_CASE("the number of a warp and what it counts are one for its lanes, not for the block", "[ir][each_warp]") {
    const Alone s;
    const Uniformity warp(s.p, Reach::warp), block(s.p, Reach::block);
    const Ref number = s.p.body[0].as<Let>()->value, lane = s.p.body[1].as<Let>()->value;
    CHECK((warp.uniform(number) && !warp.uniform(lane) && !block.uniform(number)));
    CHECK((warp.uniform_loop(0) && !block.uniform_loop(0)));
    Build b;
    const Ref halves = b.binary(BinaryOp::div, b.node(i32, {}, ThreadIndex{}), b.narrow(16));
    CHECK_FALSE(Uniformity(b.p, Reach::warp).uniform(halves));
}

TEST_CASE("warps by themselves keep to what is theirs", "[ir][each_warp]") {
    using A = Alone;
    const Breach<A> lowered[] = {
        {"each-warp", "by the number of warps", [](A& s) { s.loop().step = s.wide(1); }},
        {"each-warp", "by the number of warps", [](A& s) { s.p.threads = 128; }},
        {"each-warp", "a serial loop",
         [](A& s) { s.loop().when = true, s.loop().begin = s.wide(0), s.loop().end = s.loop().step = s.wide(1); }},
        {"uniform-control", "begin at the warp's number", [](A& s) { s.loop().begin = s.wide(0); }},
        {"uniform-control", "end alike for all", [](A& s) { s.loop().end = s.loop().begin; }},
        {"uniform-control", "begin at the warp's number",
         [](A& s) { s.loop().begin = s.cast(i64, s.node(i32, {}, Local{1})); }},
        {"uniform-control", "a barrier",
         [](A& s) {  // in a loop that lanes leave one after the other
             For inner{s.p.loops++, "j", s.wide(0), s.cast(i64, s.node(i32, {}, Local{1})), s.wide(1), false, {}};
             inner.body.push_back(s.statement(Barrier{}));
             s.body().push_back(s.statement(std::move(inner)));
         }},
        {"each-warp-nested", "inside another",
         [](A& s) {
             For inner{s.p.loops++, "j", s.loop().begin, s.wide(8), s.wide(3), false, {}};
             inner.each_warp = true;
             s.body().push_back(s.statement(std::move(inner)));
         }},
        {"each-warp-registers", "declared outside",
         [](A& s) { s.body().push_back(s.statement(Set{1, s.narrow(0), s.real(1.0f)})); }},
        {"each-warp-copies", "wait ahead of it", [](A& s) { s.body().push_back(s.statement(WaitCopies{})); }},
        {"each-warp-copies", "wait ahead of it", [](A& s) { s.body().push_back(s.statement(CommitCopies{})); }},
        {"each-warp-product", "four warps together", [](A& s) { s.body().push_back(s.statement(MmaWait{{0}})); }},
    };
    check_breaches(lowered);
    using S = Shared;
    const Breach<S> recorded[] = {
        {"each-warp", "recorded from 0", [](S& s) { s.loop().begin = s.wide(1); }},
        {"each-warp", "as recorded, by 1", [](S& s) { s.loop().step = s.wide(2); }},
        {"threads", "a multiple of 32", [](S& s) { s.p.threads = 48; }},
        {"each-warp-variable", "is assigned in it",
         [](S& s) { s.body().push_back(s.statement(Assign{0, s.real(2.0f)})); }},
        {"each-warp-variable", "is read in it",
         [](S& s) {
             s.p.body.insert(s.p.body.begin(), s.statement(Assign{1, s.node(f32, {32}, Broadcast{s.real(0.0f)})}));
             Body& body = s.p.body[2].as<For>()->body;
             body.erase(body.begin() + 1);
             s.bind(body, s.node(f32, {32}, VariableRead{1}));
         }},
    };
    check_breaches(recorded);
    Shared number;  // of the block, read by all warps
    number.bind(number.body(), number.node(f32, {}, VariableRead{0}));
    CHECK(verdict(number.p) == "");
}

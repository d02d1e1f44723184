#include "dsl/ir/roles.hpp"

#include "dsl/ir/effects.hpp"
#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "tests/ir/verify_support.hpp"

// Roles of warps and the ring between two of them, in the lowered stage.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

/// A role of one warp copies 128 bytes to a slot; one of two warps waits for them, reads them and gives the slot back.
struct Ringed : Build {
    Ringed() {
        p.name = "ringed";
        p.stage = Stage::lowered;
        p.threads = 96;
        p.tensors = {{"x", f32, Role::input, {{wide(64), wide(1)}}, 16, line(2)}};
        p.grid = {wide(1)};
        p.shared = {{"slots", f32, Shape{2, 32}, {}, line(3), 0},
                    {"full", u64, Shape{2}, {}, line(4), 256},
                    {"empty", u64, Shape{2}, {}, line(4), 384}};
        p.shared_bytes = 512;
        p.roles = {{"copier", 0, 1, 0, line(5)}, {"user", 1, 2, 0, line(6)}};
        p.arrays = {{"r", f32, 1, 1, ""}};
        at = 10;
        p.body = {statement(InitMbarriers{1}), statement(InitMbarriers{2, 2}), statement(Barrier{})};
        Body& copier = open(0);
        copier.push_back(statement(WaitCopies{0, 2, narrow(1), narrow(1), true}));
        copier.push_back(statement(CopyVector{{Space::global, 0, {wide(8)}, 0, wide(8), nullptr, 32},
                                              {Space::shared, 0, {narrow(1), narrow(0)}, 1, narrow(32), nullptr, 32},
                                              1,
                                              narrow(1)}));
        copier.push_back(statement(CommitCopies{1, narrow(1)}));
        Body& user = open(1);
        user.push_back(statement(Declare{0}));
        user.push_back(statement(WaitCopies{0, 1, narrow(1), narrow(0)}));
        user.push_back(statement(
            LoadVector{{Space::shared, 0, {narrow(1), narrow(0)}, 1, narrow(32), nullptr, 1}, 0, narrow(0), nullptr}));
        user.push_back(statement(Barrier{}));
        user.push_back(statement(Arrive{2, narrow(1)}));
    }
    Body& open(int role) {
        For body{p.loops++, "role", wide(0), wide(1), wide(1), false, {}, true};
        body.role = role;
        p.body.push_back(statement(std::move(body)));
        return p.body.back().as<For>()->body;
    }
    Body& role(std::size_t n) { return p.body[3 + n].as<For>()->body; }
};

}  // namespace

TEST_CASE("roles and what rings are made of print", "[ir][roles]") {
    Ringed s;
    CHECK(verdict(s.p) == "");
    const std::string text = print(s.p);
    CHECK_THAT(text, Catch::Contains("role copier: warps 0 … 0   // rms_norm.cpp:5\n"
                                     "role user: warps 1 … 2   // rms_norm.cpp:6\n"));
    CHECK_THAT(text,
               Catch::Contains("    start full   //") && Catch::Contains("    start empty, 2 arrivals a phase   //"));
    CHECK_THAT(text, Catch::Contains("    role user {   //"));
    CHECK(print_line(s.p, s.role(0)[0]) == "wait for empty[1], parity 1, by the first warp");
    CHECK(print_line(s.p, s.role(1)[4]) == "every warp arrives at empty[1]");
    s.p.roles[0].registers = 40;
    CHECK_THAT(print(s.p), Catch::Contains("role copier: warps 0 … 0, 40 registers"));
}

TEST_CASE("an arrival writes its mbarriers, a fence nothing, a role what is in it", "[ir][roles]") {
    Ringed s;
    const std::vector<MemoryId> empty{{Space::shared, 2}}, copied{{Space::shared, 0}, {Space::shared, 1}};
    CHECK(writes_of(s.role(1)[4]).memories == empty);
    CHECK(reads_of(s.role(1)[4]).memories.empty());
    CHECK(writes_of(s.statement(ProxyFence{})).empty());
    CHECK(writes_of(s.p.body[3]).memories == copied);
}

TEST_CASE("programs that differ in roles or arrivals are not equal", "[ir][roles]") {
    void (*const changes[])(Ringed&) = {
        [](Ringed& s) { s.p.roles[0].registers = 40; },
        [](Ringed& s) { s.p.roles[0].name = "other"; },
        [](Ringed& s) { s.p.roles[1].warps = 4; },
        [](Ringed& s) { s.p.roles[1].first_warp = 2; },
        [](Ringed& s) { s.p.roles.pop_back(); },
        [](Ringed& s) { s.p.body[1].as<InitMbarriers>()->arrivals = 3; },
        [](Ringed& s) { s.p.body[3].as<For>()->role = 1; },
        [](Ringed& s) { s.role(0)[0].as<WaitCopies>()->first_warp = false; },
        [](Ringed& s) { s.role(1)[4].as<Arrive>()->stage = s.narrow(0); },
        [](Ringed& s) { s.role(1)[3] = s.statement(ProxyFence{}); },
    };
    CHECK(equal(Ringed().p, Ringed().p));
    for (const auto change : changes) {
        Ringed changed;
        change(changed);
        CHECK_FALSE(equal(Ringed().p, changed.p));
    }
}

TEST_CASE("roles share out the block, stand last and touch what is theirs", "[ir][roles]") {
    using R = Ringed;
    const Breach<R> breaches[] = {
        {"role-warps", "share out all warps", [](R& s) { s.p.threads = 128; }},
        {"role-warps", "a power of two", [](R& s) { s.p.roles[1].warps = 3; }},
        {"role-warps", "does not begin where", [](R& s) { s.p.roles[1].first_warp = 2; }},
        {"role-registers", "has no budget", [](R& s) { s.p.roles[1].registers = 40; }},
        {"role-registers", "whole ones", [](R& s) { s.p.roles[0].registers = s.p.roles[1].registers = 40; }},
        {"role-last", "something follows", [](R& s) { s.p.body.push_back(s.statement(Barrier{})); }},
        {"role-order", "no body", [](R& s) { s.p.body.pop_back(); }},
        {"role-order", "runs once", [](R& s) { s.p.body[3].as<For>()->end = s.wide(0); }},
        {"role-order", "in the order", [](R& s) { std::swap(s.p.body[3], s.p.body[4]); }},
        {"role-order", "in no other role",
         [](R& s) {
             Body inner = std::move(s.role(1));
             For nested{s.p.loops++, "role", s.wide(0), s.wide(1), s.wide(1), false, std::move(inner), true};
             nested.role = 1;
             s.role(1) = {s.statement(std::move(nested))};
         }},
        {"role-registers", "declared outside",
         [](R& s) {
             s.p.body.insert(s.p.body.begin(), s.role(1)[0]);
             s.p.body[5].as<For>()->body.erase(s.p.body[5].as<For>()->body.begin());
         }},
        {"arrive", "outside of roles", [](R& s) { s.p.body[2] = s.role(1)[4]; }},
        {"wait", "only there", [](R& s) { s.p.body[2] = s.role(0)[0]; }},
        {"grid-sync", "top level", [](R& s) { s.role(1)[3] = s.statement(GridSync{}); }},
        {"mbarrier", "outside of loops", [](R& s) { s.role(1)[3] = s.statement(InitMbarriers{1}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("rings have one who fills, as many arrivals as warps, and order their tiles", "[ir][roles]") {
    using R = Ringed;
    const Breach<R> breaches[] = {
        {"ring-arrivals", "expects 1 arrivals a phase, and 2 warps arrive",
         [](R& s) { s.p.body[1].as<InitMbarriers>()->arrivals = 1; }},
        {"ring-arrivals", "whoever fills it arrives once", [](R& s) { s.p.body[0].as<InitMbarriers>()->arrivals = 2; }},
        {"ring-filled-twice", "two roles", [](R& s) { s.role(1)[3] = s.role(0)[2]; }},
        {"ring-wait", "role user waits for full, at which no other role arrives", [](R& s) { s.role(0).pop_back(); }},
        {"ring-wait", "role copier waits for empty", [](R& s) { s.role(1).pop_back(); }},
        {"role-tile", "slots is touched by the roles copier and user, and no ring orders",
         [](R& s) { s.role(1).erase(s.role(1).begin() + 1); }},
        {"role-copies", "through a ring",
         [](R& s) {
             auto& copy = *s.role(0)[1].as<CopyVector>();
             copy.mbarriers = -1, copy.stage = nullptr, copy.from.lanes = copy.to.lanes = 4;
         }},
        {"role-copies", "through a ring", [](R& s) { s.role(1)[3] = s.statement(WaitCopies{}); }},
        {"role-tensor", "x is written to by role user and read by role copier",
         [](R& s) {
             s.p.tensors[0].role = Role::inout;
             s.role(1)[3] =
                 s.statement(StoreVector{{Space::global, 0, {s.wide(0)}, 0, s.wide(0), nullptr, 1}, {s.real(1.0f)}});
         }},
    };
    check_breaches(breaches);
}

TEST_CASE("registers at launch are an equal share", "[ir][roles]") {
    Program p;
    p.threads = 384;
    CHECK(registers_at_launch(p) == 168);  // 65536 / 384 = 170
    p.threads = 640;
    CHECK(registers_at_launch(p) == 96);  // 102
    p.threads = 256;
    p.least_blocks = 2;
    CHECK(registers_at_launch(p) == 128);
    p.least_blocks = 0;
    CHECK(registers_at_launch(p) == 256);
}

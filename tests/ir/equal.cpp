#include "dsl/ir/equal.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <optional>

#include "tests/ir/sample.hpp"

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

TEST_CASE("two recordings of one kernel are equal, wherever their lines stand") {
    Recorded a, b;
    CHECK(equal(a.p, b.p));
    b.p.place.line = 99;
    b.p.tensors[0].place.line = 99;
    b.p.shared[0].place.file = "other.cpp";
    for (Statement& s : b.p.body) s.place.line += 1000;
    CHECK(equal(a.p, b.p));
    Lowered c, d;
    CHECK(equal(c.p, d.p));
    CHECK_FALSE(equal(a.p, c.p));
}

TEST_CASE("node ids do not count") {
    struct Late : Recorded {
        Late() {
            for (int i = 0; i < 5; ++i) real(1.0f);
            p.body.clear();
            p.loops = 0;
            fill_body(wide(1));
        }
    };
    Late a, b;
    const Ref kept = b.p.body[0].as<Bind>()->value;
    b.p.body.clear();
    b.p.loops = 0;
    b.fill_body(b.wide(1));
    REQUIRE(b.p.body[0].as<Bind>()->value->id != kept->id);
    CHECK(equal(a.p, b.p));
}

TEST_CASE("any difference of the tables is seen") {
    const std::vector<std::pair<const char*, std::function<void(Recorded&)>>> changes = {
        {"name", [](Recorded& s) { s.p.name = "other"; }},
        {"threads", [](Recorded& s) { s.p.threads = 256; }},
        {"stage", [](Recorded& s) { s.p.stage = Stage::lowered; }},
        {"loops", [](Recorded& s) { s.p.loops = 2; }},
        {"shared bytes", [](Recorded& s) { s.p.shared_bytes = 4; }},
        {"tensor name", [](Recorded& s) { s.p.tensors[0].name = "z"; }},
        {"tensor type", [](Recorded& s) { s.p.tensors[0].type = f16; }},
        {"tensor role", [](Recorded& s) { s.p.tensors[0].role = Role::inout; }},
        {"tensor align", [](Recorded& s) { s.p.tensors[0].align = 2; }},
        {"tensor axes", [](Recorded& s) { s.p.tensors[0].axes.pop_back(); }},
        {"tensor extent", [](Recorded& s) { s.p.tensors[0].axes[1].extent = s.wide(512); }},
        {"tensor inner", [](Recorded& s) { s.p.tensors[0].axes[1].inner = 4; }},
        {"scalar fact", [](Recorded& s) { s.p.scalars[0].multiple_of = 4; }},
        {"grid", [](Recorded& s) { s.p.grid.push_back(s.wide(1)); }},
        {"shared shape", [](Recorded& s) { s.p.shared[0].shape = {8, 64}; }},
        {"swizzle", [](Recorded& s) { s.p.shared[0].swizzle.shift = 3; }},
        {"variable", [](Recorded& s) { s.p.variables[0].type = f64; }},
        {"array", [](Recorded& s) { s.p.arrays.push_back({"a", f32, 1, 4, ""}); }},
        {"local", [](Recorded& s) { s.p.locals.push_back("l"); }},
    };
    const Recorded plain;
    for (const auto& [what, change] : changes) {
        INFO(what);
        Recorded other;
        change(other);
        CHECK_FALSE(equal(plain.p, other.p));
    }
}

TEST_CASE("any difference of a statement is seen") {
    const std::vector<std::pair<const char*, std::function<void(Lowered&)>>> changes = {
        {"one less", [](Lowered& s) { s.p.body.pop_back(); }},
        {"other kind", [](Lowered& s) { s.p.body.back().op = Barrier{}; }},
        {"comment", [](Lowered& s) { s.first<Comment>().text = "w"; }},
        {"loop name", [](Lowered& s) { s.first<For>().name = "j"; }},
        {"loop bound", [](Lowered& s) { s.first<For>().end = s.narrow(3); }},
        {"loop kind", [](Lowered& s) { s.first<For>().unrolled = false; }},
        {"loop body", [](Lowered& s) { s.first<For>().body.clear(); }},
        {"inner array", [](Lowered& s) { s.first<Set>(s.first<For>().body).array = 1; }},
        {"lanes", [](Lowered& s) { s.first<LoadVector>().access.lanes = 4; }},
        {"space", [](Lowered& s) { s.first<LoadVector>().access.space = Space::shared; }},
        {"predicate", [](Lowered& s) { s.first<LoadVector>().access.predicate = nullptr; }},
        {"coordinate", [](Lowered& s) { s.first<LoadVector>().access.coordinates[0] = s.column; }},
        {"fill", [](Lowered& s) { s.first<LoadVector>().fill = s.constant(bf16, 1); }},
        {"words", [](Lowered& s) { std::swap(s.first<StoreVector>().words[0], s.first<StoreVector>().words[1]); }},
        {"cache", [](Lowered& s) { s.first<LoadVector>().access.cache = Cache::streaming; }},
        {"by warps", [](Lowered& s) { s.first<For>().warp = true; }},
        {"let", [](Lowered& s) { s.first<Let>().value = s.thread(); }},
    };
    const Lowered plain;
    for (const auto& [what, change] : changes) {
        INFO(what);
        Lowered other;
        change(other);
        CHECK_FALSE(equal(plain.p, other.p));
    }
}

TEST_CASE("sharing counts: one bound tile twice is not two tiles") {
    const auto stores = [](bool shared) {
        Recorded s;
        s.p.body.clear();
        const Ref fill = s.constant(bf16, 0);
        const View view = s.rows(0), to = s.rows(1);
        const Ref a = s.bind(s.p.body, s.node(bf16, {4, 1024}, Load{view, fill, {}}));
        const Ref b = s.bind(s.p.body, s.node(bf16, {4, 1024}, Load{view, fill, {}}));
        s.p.body.push_back(s.statement(Store{to, s.add(a, shared ? a : b)}));
        return s.p;
    };
    CHECK(equal(stores(false), stores(false)));
    Recorded normal, streaming;
    for (Statement& statement : streaming.p.body)
        if (auto* store = statement.as<Store>()) store->cache = Cache::streaming;
    CHECK_FALSE(equal(normal.p, streaming.p));
    CHECK_FALSE(equal(stores(true), stores(false)));
    CHECK_FALSE(equal(stores(false), stores(true)));
}

TEST_CASE("lookups differ by index, entries and signs") {
    const auto with = [](std::uint64_t index, std::uint64_t last, std::optional<std::uint64_t> signs) {
        Recorded s;
        std::vector<Ref> table(7, s.constant(e4m3, 0x38));
        table.push_back(s.constant(e4m3, last));
        s.bind(s.p.body,
               s.node(e4m3, {}, Lookup{s.constant(e2m1, index), table, signs ? s.constant(boolean, *signs) : nullptr}));
        return s.p;
    };
    CHECK(equal(with(3, 1, 1), with(3, 1, 1)));
    CHECK(equal(with(3, 1, {}), with(3, 1, {})));
    CHECK_FALSE(equal(with(3, 1, 1), with(4, 1, 1)));
    CHECK_FALSE(equal(with(3, 1, 1), with(3, 2, 1)));
    CHECK_FALSE(equal(with(3, 1, 1), with(3, 1, 0)));
    CHECK_FALSE(equal(with(3, 1, 1), with(3, 1, {})));
    CHECK_FALSE(equal(with(3, 1, {}), with(3, 1, 1)));
}

TEST_CASE("reductions differ by their operation") {
    const auto with = [](ReduceOp op) {
        Recorded s;
        const Ref tile = s.bind(s.p.body, s.node(i64, {4, 8}, Coordinate{1}));
        s.bind(s.p.body, s.node(i64, {4, 1}, Reduce{op, tile, 1}));
        return s.p;
    };
    CHECK(equal(with(ReduceOp::bit_or), with(ReduceOp::bit_or)));
    CHECK_FALSE(equal(with(ReduceOp::bit_or), with(ReduceOp::max)));
}

TEST_CASE("a shared graph of 2^60 paths is compared at once") {
    const auto deep = [](std::int64_t leaf) {
        Recorded s;
        Ref x = s.wide(leaf);
        for (int i = 0; i < 60; ++i) x = s.add(x, x);
        s.p.grid = {x};
        return s.p;
    };
    CHECK(equal(deep(1), deep(1)));
    CHECK_FALSE(equal(deep(1), deep(2)));
}

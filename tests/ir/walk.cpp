#include "dsl/ir/walk.hpp"

#include <catch2/catch.hpp>

#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "tests/ir/sample.hpp"

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

std::vector<Ref> operands_of(Ref node) {
    std::vector<Ref> all;
    for_each_operand(*node, [&](Ref operand) { all.push_back(operand); });
    return all;
}

std::vector<Ref> refs_of(const Statement& s) {
    std::vector<Ref> all;
    for_each_ref(s, [&](Ref ref) { all.push_back(ref); });
    return all;
}

}  // namespace

TEST_CASE("operands come in the order of the fields") {
    Build b;
    const Ref x = b.wide(1), y = b.wide(2), c = b.constant(boolean, 1);
    CHECK(operands_of(x).empty());
    CHECK(operands_of(b.binary(BinaryOp::sub, y, x)) == std::vector<Ref>{y, x});
    CHECK(operands_of(b.node(i64, {}, Select{c, x, y})) == std::vector<Ref>{c, x, y});
    CHECK(operands_of(b.node(i64, {2}, Pack{{y, x}})) == std::vector<Ref>{y, x});
    CHECK(operands_of(b.node(i64, {}, Register{0, y})) == std::vector<Ref>{y});
    CHECK(operands_of(b.node(u8, {}, Lookup{y, {x, y}, nullptr})) == std::vector<Ref>{y, x, y});
    CHECK(operands_of(b.node(e2m1, {}, Lookup{y, {x}, c})) == std::vector<Ref>{y, x, c});
    const Ref load = b.node(i64, {4}, Load{View{Space::global, 0, {{x, 4, false}, {y, 1, true}}}, c, {}});
    CHECK(operands_of(load) == std::vector<Ref>{x, y, c});
    CHECK(operands_of(b.node(i64, {4}, Load{View{Space::global, 0, {{x, 4, false}}}, nullptr, {}})) ==
          std::vector<Ref>{x});
}

TEST_CASE("map_operands replaces every operand and leaves the node alone") {
    Build b;
    const Ref x = b.wide(1), y = b.wide(2);
    const Ref load = b.node(i64, {4}, Load{View{Space::shared, 3, {{x, 4, false}, {x, 1, true}}}, x, {2}});
    const Op op = map_operands(*load, [&](Ref operand) { return operand == x ? y : operand; });
    const Load& mapped = std::get<Load>(op);
    CHECK(mapped.view.axes[0].offset == y);
    CHECK(mapped.view.axes[1].offset == y);
    CHECK(mapped.view.memory == 3);
    CHECK(mapped.fill == y);
    CHECK(mapped.per_thread == Shape{2});
    CHECK(operands_of(load) == std::vector<Ref>{x, x, x});
}

TEST_CASE("statements are walked in program order, into loops") {
    Lowered s;
    std::vector<std::size_t> kinds;
    const Program& p = s.p;
    for_each_statement(p.body, [&](const Statement& statement) { kinds.push_back(statement.op.index()); });
    const std::vector<StatementOp> order = {Let{}, Let{},         Comment{}, Declare{}, LoadVector{}, For{},
                                            Set{}, StoreVector{}, Barrier{}, Declare{}, LoadVector{}, StoreVector{}};
    REQUIRE(kinds.size() == order.size());
    for (std::size_t i = 0; i < order.size(); ++i) CHECK(kinds[i] == order[i].index());
}

TEST_CASE("a statement's expressions are those that it names, with its access's") {
    Lowered s;
    const auto& load = s.first<LoadVector>();
    CHECK(refs_of(s.p.body[4]) == std::vector<Ref>{s.row, s.column, s.offset, s.inside, load.index, load.fill});
    const auto& loop = s.first<For>();
    CHECK(refs_of(s.p.body[5]) == std::vector<Ref>{loop.begin, loop.end, loop.step});
    const auto& store = s.first<StoreVector>();
    CHECK(refs_of(s.p.body[6]) ==
          std::vector<Ref>{s.column, s.column, store.words[0], store.words[1], store.words[2], store.words[3]});
    CHECK(refs_of(s.p.body[7]).empty());
    const Recorded r;
    const Statement& last = r.p.body.back();
    const auto& to = last.as<Store>()->view;
    CHECK(refs_of(last) == std::vector<Ref>{to.axes[0].offset, to.axes[1].offset, last.as<Store>()->value});
}

TEST_CASE("map_refs replaces what for_each_ref visits") {
    Lowered s;
    const Ref other = s.narrow(7);
    map_refs(s.p.body[4], [&](Ref) { return other; });
    CHECK(refs_of(s.p.body[4]) == std::vector<Ref>(6, other));
}

TEST_CASE("every node is met once, operands before users") {
    Build b;
    Ref x = b.wide(1);
    for (int i = 0; i < 60; ++i) x = b.add(x, x);
    NodeSet met;
    std::vector<int> ids;
    for_each_node(x, met, [&](Ref n) { ids.push_back(n->id); });
    REQUIRE(ids.size() == 61);
    CHECK(std::is_sorted(ids.begin(), ids.end()));
    CHECK(met.contains(x));
    for_each_node(x, met, [&](Ref) { FAIL("met twice"); });
}

TEST_CASE("the rewriter asks its rule once for each node and keeps what does not change") {
    Build b;
    const Ref n = b.node(i64, {}, Parameter{0}), kept = b.mul(b.wide(2), b.wide(3));
    Ref x = b.add(n, kept);
    for (int i = 0; i < 60; ++i) x = b.add(x, x);
    int asked = 0;
    Rewriter rewrite(*b.p.arena, [&](const Node& node, auto& self) -> Ref {
        ++asked;
        return node.as<Parameter>() ? self.arena().make(i64, {}, node.place, Constant{5}) : nullptr;
    });
    const Ref y = rewrite(x);
    CHECK(asked == 65);  // 61 sums, the product, its two constants, the parameter
    CHECK(y != x);
    CHECK(rewrite(x) == y);
    CHECK(asked == 65);
    CHECK(rewrite(kept) == kept);
    CHECK(print(rewrite(b.add(n, kept))) == "5 + 2 * 3");
}

TEST_CASE("a rule may look at rewritten operands, and fix results beforehand") {
    Build b;
    const Ref n = b.node(i64, {}, Parameter{0});
    Rewriter fold(*b.p.arena, [&](const Node& node, auto& self) -> Ref {
        const auto* op = node.as<Binary>();
        if (!op || op->op != BinaryOp::mul) return nullptr;
        const auto* one = self(op->b)->template as<Constant>();
        return one && one->bits == 1 ? self(op->a) : nullptr;
    });
    CHECK(fold(b.mul(b.mul(n, b.wide(1)), b.wide(1))) == n);
    const Ref m = b.node(i64, {}, Parameter{1});
    fold.forget();
    fold.set(n, m);
    CHECK(fold(b.mul(n, b.wide(1))) == m);
    CHECK(fold(nullptr) == nullptr);
}

TEST_CASE("a program copied into another arena is equal and shares no node") {
    Recorded s;
    Program copy = s.p;
    copy.arena = std::make_shared<Arena>();
    Rewriter over(*copy.arena, [](const Node&, auto&) -> Ref { return nullptr; }, Unchanged::copy);
    rewrite_program(copy, over);
    CHECK(equal(copy, s.p));
    CHECK(copy.body[0].as<Bind>()->value != s.load);
    NodeSet old;
    const std::string before = print(s.p);
    std::vector<Ref> mine;
    for_each_statement(s.p.body, [&](const Statement& st) {
        for_each_ref(st, [&](Ref r) { for_each_node(r, old, [&](Ref n) { mine.push_back(n); }); });
    });
    NodeSet fresh;
    for_each_statement(copy.body, [&](const Statement& st) {
        for_each_ref(st, [&](Ref r) {
            for_each_node(r, fresh, [&](Ref n) { CHECK(std::find(mine.begin(), mine.end(), n) == mine.end()); });
        });
    });
    s.p.arena.reset();
    CHECK(print(copy) == before);
}

#include "tests/ir/verify_support.hpp"

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

using R = Recorded;

/// Binds a tile at the end of the program.
void put(R& s, Element type, Shape shape, Op op) { s.bind(s.p.body, s.node(type, shape, std::move(op))); }
View& loaded(R& s, View& view) {
    view = s.rows(0);
    return view;
}
void put_load(R& s, void (*change)(R&, View&), Ref fill = nullptr) {
    View view;
    change(s, loaded(s, view));
    put(s, bf16, {4, 1024}, Load{view, fill ? fill : s.constant(bf16, 0), {}});
}
Ref tile(R& s) { return s.load; }
Ref ints(R& s) { return s.bind(s.p.body, s.node(i64, {4, 8}, Coordinate{0})); }
For& loop(R& s) { return *s.p.body[4].as<For>(); }
Store& last_store(R& s) { return *s.p.body.back().as<Store>(); }

/// A node of another program, which lives on; its id is past those of a sample or that of another node there.
Ref strange(bool past) {
    static Recorded other;
    static const Ref last = [] {
        for (int i = 0; i < 1000; ++i) other.wide(i);
        return other.wide(1);
    }();
    return past ? last : other.tokens;
}

}  // namespace

TEST_CASE("the recorded samples hold, with every kind of node") {
    R s;
    const Ref v = ints(s);
    put(s, i64, {8, 4}, Permute{v, {1, 0}});
    put(s, i64, {2, 16}, Reshape{v});
    put(s, i64, {4, 8}, Convert{v});
    put(s, u64, {4, 8}, Bitcast{v});
    put(s, i64, {4, 8}, Select{s.binary(BinaryOp::lt, v, v), v, v});
    put(s, i64, {4, 8}, Binary{BinaryOp::shl, v, s.node(i64, {4, 8}, Broadcast{s.wide(63)})});
    put(s, boolean, {4, 1}, Reduce{ReduceOp::max, s.binary(BinaryOp::lt, v, v), 1});
    View piece{Space::shared, 0, {{s.wide(1), 1, true}, {s.wide(0), 64, false}}};
    put(s, f32, {64}, Load{piece, s.real(0), {8}});
    CHECK(verdict(s.p) == "");
}

TEST_CASE("a verdict names rule, program, statement, node and types") {
    R s;
    last_store(s).value = s.cast(f16, s.load);
    CHECK(verdict(s.p) ==
          "tessera: internal error: rule \"operand-type\" is broken in program rms_norm, statement \"store f16(%x) to "
          "y.block[4, "
          "1024] at (block0 * 4, 0)\" (rms_norm.cpp:18), node " +
              std::to_string(last_store(s).value->id) +
              " \"f16(%x)\" of type f16 [4, 1024] over bf16 [4, 1024]: what is stored has not the memory's type "
              "(please report "
              "this with the program that caused it)");
}

TEST_CASE("operands fit their operations") {
    const Breach<R> breaches[] = {
        {"operand-type", "not the node's", [](R& s) { put(s, f32, {4, 1024}, Unary{UnaryOp::neg, tile(s)}); }},
        {"operand-shape", "not the node's", [](R& s) { put(s, bf16, {4}, Unary{UnaryOp::neg, tile(s)}); }},
        {"operand-type", "not defined", [](R& s) { put(s, bf16, {4, 1024}, Unary{UnaryOp::bit_not, tile(s)}); }},
        {"operand-type", "not defined", [](R& s) { put(s, i64, {4, 8}, Unary{UnaryOp::rsqrt, ints(s)}); }},
        {"operand-type", "not defined", [](R& s) { put(s, boolean, {}, Unary{UnaryOp::neg, s.constant(boolean, 1)}); }},
        {"operand-type", "not defined", [](R& s) { put(s, bf16, {4, 1024}, Unary{UnaryOp::exp, tile(s)}); }},
        {"operand-type", "not defined", [](R& s) { put(s, bf16, {4, 1024}, Unary{UnaryOp::log1p, tile(s)}); }},
        {"operand-type", "not defined", [](R& s) { put(s, bf16, {4, 8}, Least{tile(s), 1, 0, 8}); }},
        {"operand-type", "not defined", [](R& s) { put(s, i64, {}, Binary{BinaryOp::max_nan, s.tokens, s.tokens}); }},
        {"operand-type", "votes on a mask", [](R& s) { put(s, i64, {}, WarpReduce{ReduceOp::max, ints(s)}); }},
        {"vote", "another value",
         [](R& s) {
             const Ref vote = s.bind(s.p.body, s.node(boolean, {}, WarpReduce{ReduceOp::max, s.constant(boolean, 1)}));
             put(s, i64, {}, Select{vote, s.tokens, s.tokens});
         }},
        {"vote", "a warp's vote",
         [](R& s) {
             const Ref truth = s.cast(i64, s.constant(boolean, 1));
             s.p.body.push_back(s.statement(For{s.p.loops++, "i", s.wide(0), truth, s.wide(1), false, {}, true, true}));
         }},
        {"cache", "no cache",
         [](R& s) {
             for (Statement& statement : s.p.body)
                 if (auto* store = statement.as<Store>())
                     store->view = View{Space::shared, 0, {{s.wide(0), 4, false}, {s.wide(0), 64, false}}},
                     store->cache = Cache::streaming;
         }},
        {"cache", "not kept",
         [](R& s) {
             for (Statement& statement : s.p.body)
                 if (auto* store = statement.as<Store>()) store->cache = Cache::kept;
         }},
        {"operand-type", "not defined", [](R& s) { put(s, i64, {4, 8}, Unary{UnaryOp::popcount, ints(s)}); }},
        {"axis", "the lanes of a warp", [](R& s) { put(s, u32, {4, 8}, Match{ints(s), 1}); }},
        {"result-type", "a bit a lane", [](R& s) { put(s, i64, {4, 8}, Match{ints(s), 1}); }},
        {"axis", "no such axis", [](R& s) { put(s, i64, {4, 2}, Least{ints(s), 2, 0, 2}); }},
        {"rank-range", "below the axis' extent", [](R& s) { put(s, i64, {4, 16}, Least{ints(s), 1, 0, 9}); }},
        {"rank-range", "below the axis' extent", [](R& s) { put(s, i64, {4, 1}, Least{ints(s), 1, 2, 2}); }},
        {"result-shape", "room for the ranks", [](R& s) { put(s, i64, {4, 3}, Least{ints(s), 1, 0, 3}); }},
        {"operand-type", "not defined",
         [](R& s) { put(s, bf16, {4, 1024}, Binary{BinaryOp::div_bounded, tile(s), tile(s)}); }},
        {"operand-type", "not defined", [](R& s) { put(s, bf16, {4, 1024}, Fma{tile(s), tile(s), tile(s)}); }},
        {"operand-type", "not the node's",
         [](R& s) { put(s, f32, {}, Fma{s.real(1), s.constant(bf16, 0), s.real(1)}); }},
        {"operand-shape", "not the node's", [](R& s) { put(s, f32, {4}, Fma{s.real(1), s.real(1), s.real(1)}); }},
        {"operand-shape", "not the node's",
         [](R& s) { put(s, bf16, {4, 1024}, Binary{BinaryOp::add, tile(s), s.constant(bf16, 0)}); }},
        {"operand-type", "do not meet",
         [](R& s) { put(s, bf16, {4, 1024}, Binary{BinaryOp::add, tile(s), s.cast(f16, tile(s))}); }},
        {"operand-type", "not defined", [](R& s) { put(s, bf16, {4, 1024}, Binary{BinaryOp::mod, tile(s), tile(s)}); }},
        {"operand-type", "not defined",
         [](R& s) { put(s, bf16, {4, 1024}, Binary{BinaryOp::bit_and, tile(s), tile(s)}); }},
        {"operand-type", "not defined",
         [](R& s) { put(s, e4m3, {}, Binary{BinaryOp::add, s.constant(e4m3, 0), s.constant(e4m3, 0)}); }},
        {"operand-type", "not defined",
         [](R& s) { put(s, boolean, {}, Binary{BinaryOp::lt, s.constant(boolean, 0), s.constant(boolean, 0)}); }},
        {"result-type", "does not follow",
         [](R& s) { put(s, bf16, {4, 1024}, Binary{BinaryOp::lt, tile(s), tile(s)}); }},
        {"result-type", "does not follow",
         [](R& s) { put(s, boolean, {4, 1024}, Binary{BinaryOp::add, tile(s), tile(s)}); }},
        {"shift-count", "wide as the type",
         [](R& s) { put(s, i32, {}, Binary{BinaryOp::shr, s.narrow(1), s.narrow(32)}); }},
        {"operand-type", "condition is not boolean",
         [](R& s) { put(s, i64, {4, 8}, Select{ints(s), ints(s), ints(s)}); }},
        {"operand-shape", "not the node's",
         [](R& s) { put(s, i64, {4, 8}, Select{s.constant(boolean, 1), ints(s), ints(s)}); }},
        {"operand-type", "not the node's",
         [](R& s) { put(s, i64, {}, Select{s.constant(boolean, 1), s.wide(1), s.narrow(1)}); }},
        {"operand-shape", "not the node's", [](R& s) { put(s, f32, {4}, Cast{tile(s)}); }},
        {"operand-type", "bounded cast", [](R& s) { put(s, e4m3, {4, 1024}, Cast{tile(s), true}); }},
        {"operand-type", "bounded cast", [](R& s) { put(s, e2m1, {4, 8}, Cast{ints(s), true}); }},
        {"operand-type", "keeps the width", [](R& s) { put(s, u32, {4, 1024}, Bitcast{tile(s)}); }},
        {"operand-missing", "operand is missing",
         [](R& s) { put(s, i64, {}, Binary{BinaryOp::add, s.wide(1), nullptr}); }},
        {"constant-bits", "above the width", [](R& s) { put(s, u8, {}, Constant{256}); }},
        {"constant-bits", "above the width", [](R& s) { put(s, boolean, {}, Constant{2}); }},
        {"result-shape", "has rank 0", [](R& s) { put(s, i64, {4}, Constant{2}); }},
        {"extent", "below 1", [](R& s) { put(s, i64, {4, 0}, Coordinate{0}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("shapes follow from operands") {
    const Breach<R> breaches[] = {
        {"axis", "no such axis", [](R& s) { put(s, i64, {4, 8}, Coordinate{2}); }},
        {"result-type", "is i64", [](R& s) { put(s, i32, {4, 8}, Coordinate{1}); }},
        {"result-shape", "extent 1", [](R& s) { put(s, bf16, {4, 1024}, Reduce{ReduceOp::max, tile(s), 1}); }},
        {"axis", "no such axis", [](R& s) { put(s, bf16, {4, 1}, Reduce{ReduceOp::max, tile(s), 2}); }},
        {"operand-type", "sum of a product", [](R& s) { put(s, bf16, {4, 1}, Reduce{ReduceOp::dot, tile(s), 1}); }},
        {"operand-type", "not the node's", [](R& s) { put(s, f32, {4, 1}, Reduce{ReduceOp::max, tile(s), 1}); }},
        {"operand-type", "not defined",
         [](R& s) { put(s, boolean, {1, 8}, Reduce{ReduceOp::sum, s.binary(BinaryOp::lt, ints(s), ints(s)), 0}); }},
        {"operand-shape", "extents of 1 only", [](R& s) { put(s, f32, {8, 1}, Broadcast{s.sum}); }},
        {"operand-shape", "keeps the rank", [](R& s) { put(s, f32, {4}, Broadcast{s.sum}); }},
        {"result-shape", "number of elements", [](R& s) { put(s, bf16, {4, 512}, Reshape{tile(s)}); }},
        {"axis", "every axis once", [](R& s) { put(s, bf16, {4, 4}, Permute{tile(s), {0, 0}}); }},
        {"axis", "every axis once", [](R& s) { put(s, bf16, {4, 1024}, Permute{tile(s), {0}}); }},
        {"result-shape", "permuted extent", [](R& s) { put(s, bf16, {4, 1024}, Permute{tile(s), {1, 0}}); }},
        {"operand-shape", "not the node's", [](R& s) { put(s, bf16, {1024, 4}, Convert{tile(s)}); }},
        {"result-type", "not the variable's", [](R& s) { put(s, f64, {4, 1}, VariableRead{0}); }},
        {"result-shape", "not the variable's", [](R& s) { put(s, f32, {4}, VariableRead{0}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("indices stay in the program's tables") {
    const Breach<R> breaches[] = {
        {"index-range", "no such scalar", [](R& s) { put(s, i64, {}, Parameter{1}); }},
        {"result-type", "not that of its scalar", [](R& s) { put(s, i32, {}, Parameter{0}); }},
        {"index-range", "no such loop", [](R& s) { put(s, i64, {}, LoopIndex{1}); }},
        {"index-range", "grid has no such axis", [](R& s) { put(s, i64, {}, BlockIndex{1}); }},
        {"result-type", "block index is i64", [](R& s) { put(s, i32, {}, BlockIndex{0}); }},
        {"index-range", "no such variable", [](R& s) { put(s, f32, {4, 1}, VariableRead{1}); }},
        {"index-range", "no such variable", [](R& s) { s.p.body[3].as<Assign>()->variable = -1; }},
        {"index-range", "no such memory", [](R& s) { put_load(s, [](R&, View& v) { v.memory = 2; }); }},
        {"index-range", "no such memory", [](R& s) { last_store(s).view.memory = -1; }},
        {"index-range", "no such loop", [](R& s) { loop(s).loop = 1; }},
        {"node-id", "not of the program's arena", [](R& s) { s.p.grid = {strange(true)}; }},
        {"node-id", "two nodes bear one id", [](R& s) { s.p.grid = {strange(false)}; }},
    };
    check_breaches(breaches);
}

TEST_CASE("pieces fit their memories, inputs are not written and outputs not read") {
    const Breach<R> breaches[] = {
        {"view", "an axis for each axis", [](R& s) { put_load(s, [](R&, View& v) { v.axes.pop_back(); }); }},
        {"view", "at least 1", [](R& s) { put_load(s, [](R&, View& v) { v.axes[0].extent = 0; }); }},
        {"view", "1 where an axis is picked", [](R& s) { put_load(s, [](R&, View& v) { v.axes[0].picked = true; }); }},
        {"offset-type", "are i64", [](R& s) { put_load(s, [](R& t, View& v) { v.axes[0].offset = t.narrow(0); }); }},
        {"offset-type", "one for each position",
         [](R& s) {
             put_load(s, [](R& t, View& v) { v.axes[0].offset = t.p.arena->make(i64, {3}, {}, Coordinate{0}); });
         }},
        {"offset-type", "tiles of indices",
         [](R& s) {
             put_load(s, [](R& t, View& v) { v.axes[0].offset = t.p.arena->make(f32, {4}, {}, Coordinate{0}); });
         }},
        {"operand-missing", "operand is missing",
         [](R& s) { put_load(s, [](R&, View& v) { v.axes[0].offset = nullptr; }); }},
        {"operand-missing", "offset is missing", [](R& s) { last_store(s).view.axes[0].offset = nullptr; }},
        {"result-shape", "the view's axes", [](R& s) { put_load(s, [](R&, View& v) { v.axes[0].extent = 2; }); }},
        {"result-type", "not the memory's",
         [](R& s) { put(s, f16, {4, 1024}, Load{s.rows(0), s.constant(f16, 0), {}}); }},
        {"fill", "of the memory's type", [](R& s) { put(s, bf16, {4, 1024}, Load{s.rows(0), s.real(0), {}}); }},
        {"operand-missing", "operand is missing", [](R& s) { put(s, bf16, {4, 1024}, Load{s.rows(0), nullptr, {}}); }},
        {"per-thread", "for each axis",
         [](R& s) { put(s, bf16, {4, 1024}, Load{s.rows(0), s.constant(bf16, 0), {8}}); }},
        {"per-thread", "divide", [](R& s) { put(s, bf16, {4, 1024}, Load{s.rows(0), s.constant(bf16, 0), {1, 3}}); }},
        {"role", "output tensor is loaded", [](R& s) { put_load(s, [](R&, View& v) { v.memory = 1; }); }},
        {"role", "input tensor is stored", [](R& s) { last_store(s).view.memory = 0; }},
        {"operand-shape", "extents of the view", [](R& s) { last_store(s).view.axes[0].extent = 2; }},
        {"operand-type", "the variable's type", [](R& s) { s.p.body[3].as<Assign>()->value = s.cast(f64, s.sum); }},
        {"operand-shape", "the variable's extents",
         [](R& s) { s.p.body[3].as<Assign>()->value = s.node(f32, {1, 4}, Reshape{s.sum}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("tiles are bound once, before their use, in an open scope") {
    const Breach<R> breaches[] = {
        {"bind-scope", "no Bind", [](R& s) { s.p.body.erase(s.p.body.begin()); }},
        {"bind-scope", "no Bind", [](R& s) { std::swap(s.p.body[0], s.p.body[1]); }},
        {"bind-scope", "no Bind", [](R& s) { std::swap(s.p.body[1], s.p.body[2]); }},
        {"bind-scope", "no Bind",
         [](R& s) {
             last_store(s).value = s.cast(bf16, s.node(bf16, {4, 1024}, Load{s.rows(0), s.constant(bf16, 0), {}}));
         }},
        {"bind-scope", "no Bind", [](R& s) { s.p.body[3].as<Assign>()->value = loop(s).body[0].as<Bind>()->value; }},
        {"bind-scope", "no Bind",
         [](R& s) { s.p.body.push_back(s.statement(Assign{0, loop(s).body[0].as<Bind>()->value})); }},
        {"bind-once", "bound twice", [](R& s) { s.p.body.push_back(s.statement(Bind{s.load})); }},
        {"operand-missing", "expression is missing", [](R& s) { s.p.body.push_back(s.statement(Bind{nullptr})); }},
        {"loop-scope", "outside its loop", [](R& s) { put(s, i64, {}, LoopIndex{0}); }},
        {"loop-id", "two loops", [](R& s) { s.p.body.push_back(s.p.body[4]); }},
        {"loop", "i64 of rank 0", [](R& s) { loop(s).end = s.narrow(4); }},
        {"loop", "i64 of rank 0", [](R& s) { loop(s).end = s.node(i64, {4}, Coordinate{0}); }},
        {"loop", "at least 1", [](R& s) { loop(s).step = s.wide(0); }},
        {"loop", "at least 1", [](R& s) { loop(s).step = s.wide(-1); }},
        {"result-type", "i32 in an unrolled one",
         [](R& s) {
             For& l = loop(s);
             l.unrolled = true, l.begin = s.narrow(0), l.end = s.narrow(4), l.step = s.narrow(1);
         }},
    };
    check_breaches(breaches);
}

TEST_CASE("nodes and statements stand in their stage") {
    const Breach<R> breaches[] = {
        {"stage", "kind of node", [](R& s) { put(s, i32, {}, ThreadIndex{}); }},
        {"stage", "kind of node", [](R& s) { put(s, i64, {}, LinearBlock{}); }},
        {"stage", "kind of node", [](R& s) { put(s, f32, {}, Local{0}); }},
        {"stage", "kind of node", [](R& s) { put(s, f32, {}, Register{0, s.narrow(0)}); }},
        {"stage", "kind of node", [](R& s) { put(s, f32, {}, Lane{s.sum, 0}); }},
        {"stage", "kind of node", [](R& s) { put(s, f32, {1}, Pack{{s.real(1)}}); }},
        {"stage", "kind of node", [](R& s) { put(s, f32, {}, Shuffle{s.real(1), 1}); }},
        {"stage", "kind of statement", [](R& s) { s.p.body.push_back(s.statement(Barrier{})); }},
        {"stage", "kind of statement", [](R& s) { s.p.body.push_back(s.statement(Comment{"x"})); }},
        {"stage", "kind of statement", [](R& s) { s.p.body.push_back(s.statement(Declare{0})); }},
        {"stage", "kind of statement", [](R& s) { s.p.body.push_back(s.statement(Let{0, s.wide(1)})); }},
        {"stage", "kind of statement", [](R& s) { s.p.body.push_back(s.statement(Set{0, s.narrow(0), s.wide(1)})); }},
        {"stage", "kind of statement",
         [](R& s) { s.p.body.push_back(s.statement(LoadVector{{}, 0, s.narrow(0), nullptr})); }},
        {"stage", "kind of statement", [](R& s) { s.p.body.push_back(s.statement(StoreVector{{}, {}})); }},
    };
    check_breaches(breaches);
}

TEST_CASE("the tables of a program hold") {
    const Breach<R> breaches[] = {
        {"threads", "multiple of 32", [](R& s) { s.p.threads = 100; }},
        {"threads", "to 1024", [](R& s) { s.p.threads = 1056; }},
        {"names", "two launch arguments", [](R& s) { s.p.scalars[0].name = "x"; }},
        {"names", "empty", [](R& s) { s.p.tensors[0].name = ""; }},
        {"tensor", "power of two", [](R& s) { s.p.tensors[0].align = 12; }},
        {"tensor", "an element at least", [](R& s) { s.p.tensors[0].align = 1; }},
        {"tensor", "inner extent", [](R& s) { s.p.tensors[0].axes[0].inner = 0; }},
        {"tensor", "i64 of rank 0", [](R& s) { s.p.tensors[0].axes[0].extent = s.narrow(4); }},
        {"tensor", "scalars and constants alone", [](R& s) { s.p.tensors[0].axes[0].stride = s.block; }},
        {"operand-missing", "extent or stride", [](R& s) { s.p.tensors[0].axes[0].stride = nullptr; }},
        {"scalar", "multiple of 1", [](R& s) { s.p.scalars[0].multiple_of = 0; }},
        {"grid", "scalars and constants alone", [](R& s) { s.p.grid = {s.add(s.block, s.wide(1))}; }},
        {"grid", "i64 of rank 0", [](R& s) { s.p.grid = {s.narrow(4)}; }},
        {"shared-tile", "extent is below 1", [](R& s) { s.p.shared[0].shape = {0, 64}; }},
        {"shared-tile", "XORed", [](R& s) { s.p.shared[0].swizzle = {3, 2, 2}; }},
        {"shared-tile", "does not divide", [](R& s) { s.p.shared[0].shape = {1, 24}; }},
    };
    check_breaches(breaches);
}

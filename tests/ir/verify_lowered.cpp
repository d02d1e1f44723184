#include "tests/ir/verify_support.hpp"

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

using L = Lowered;

/// Binds a value to a new local at the end of the program.
void put(L& s, Element type, Shape shape, Op op) {
    const int local = static_cast<int>(s.p.locals.size());
    s.p.locals.push_back("extra" + std::to_string(local));
    s.p.body.push_back(s.statement(Let{local, s.node(type, shape, std::move(op))}));
}
LoadVector& load(L& s) { return s.first<LoadVector>(); }
StoreVector& shared_store(L& s) { return s.first<StoreVector>(); }
StoreVector& global_store(L& s) { return *s.p.body.back().as<StoreVector>(); }
For& loop(L& s) { return s.first<For>(); }
Set& set(L& s) { return s.first<Set>(loop(s).body); }
Ref pair(L& s) { return s.word(0, s.narrow(0)); }
Ref one(L& s) { return s.constant(bf16, 0x3F80); }

/// A truth that differs between lanes, and one of all of them.
Ref own(L& s) { return s.node(boolean, {}, Binary{BinaryOp::lt, s.column, s.narrow(7)}); }
Ref vote(L& s) { return s.node(boolean, {}, WarpReduce{ReduceOp::max, own(s)}); }

/// A serial loop around nothing but `inner`, that threads leave after different numbers of turns.
void diverge(L& s, Statement inner, Ref end) {
    For divergent{s.p.loops++, "j", s.wide(0), end, s.wide(1), false, {}};
    divergent.body.push_back(std::move(inner));
    s.p.body.push_back(s.statement(std::move(divergent)));
}

}  // namespace

TEST_CASE("the lowered samples hold, with every kind of node") {
    L s;
    put(s, bf16, {2}, Pack{{one(s), one(s)}});
    put(s, bf16, {}, Lane{pair(s), 1});
    put(s, bf16, {2}, Shuffle{pair(s), 31});
    put(s, u32, {}, Bitcast{pair(s)});
    put(s, boolean, {2}, Binary{BinaryOp::lt, pair(s), pair(s)});
    put(s, boolean, {}, Binary{BinaryOp::bit_or, vote(s), own(s)});
    put(s, boolean, {}, Select{vote(s), own(s), own(s)});
    diverge(s, s.statement(Barrier{}), s.row);
    CHECK(verdict(s.p) == "");
}

TEST_CASE("words are at most 32 bits, and lanes are theirs") {
    const Breach<L> breaches[] = {
        {"word-width", "wider than 32 bits", [](L& s) { put(s, bf16, {3}, Pack{{one(s), one(s), one(s)}}); }},
        {"word-width", "scalars and packed words", [](L& s) { put(s, bf16, {1, 2}, Pack{{one(s), one(s)}}); }},
        {"word-width", "wider than 32 bits", [](L& s) { s.p.arrays[0].pack = 4; }},
        {"array", "has words", [](L& s) { s.p.arrays[0].words = 0; }},
        {"result-shape", "a lane for each element", [](L& s) { put(s, bf16, {2}, Pack{{one(s)}}); }},
        {"operand-type", "not the node's", [](L& s) { put(s, bf16, {2}, Pack{{one(s), s.constant(f16, 0)}}); }},
        {"operand-missing", "operand is missing", [](L& s) { put(s, bf16, {2}, Pack{{one(s), nullptr}}); }},
        {"operand-shape", "rank-0 values", [](L& s) { put(s, bf16, {1}, Pack{{pair(s)}}); }},
        {"index-range", "no such lane", [](L& s) { put(s, bf16, {}, Lane{pair(s), 2}); }},
        {"operand-shape", "of a packed word", [](L& s) { put(s, bf16, {}, Lane{one(s), 0}); }},
        {"result-shape", "the register array's", [](L& s) { put(s, bf16, {}, Register{0, s.narrow(0)}); }},
        {"result-type", "the register array's", [](L& s) { put(s, f16, {2}, Register{0, s.narrow(0)}); }},
        {"operand-type", "keeps the width", [](L& s) { put(s, u16, {}, Bitcast{pair(s)}); }},
        {"index-range", "from 1 to 31", [](L& s) { put(s, bf16, {2}, Shuffle{pair(s), 0}); }},
        {"index-range", "from 1 to 31", [](L& s) { put(s, bf16, {2}, Shuffle{pair(s), 32}); }},
        {"operand-type", "type of its array", [](L& s) { set(s).value = s.node(u16, {2}, Bitcast{pair(s)}); }},
        {"operand-shape", "lanes of its array", [](L& s) { set(s).value = one(s); }},
        {"result-type", "is i32", [](L& s) { put(s, i64, {}, ThreadIndex{}); }},
        {"result-type", "is i64", [](L& s) { put(s, i32, {}, LinearBlock{}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("locals, arrays and loops are in scope") {
    const Breach<L> breaches[] = {
        {"local-scope", "no Let", [](L& s) { s.p.body.erase(s.p.body.begin()); }},
        {"local-scope", "no Let",
         [](L& s) { std::rotate(s.p.body.begin(), s.p.body.begin() + 1, s.p.body.begin() + 5); }},
        {"local-scope", "no Let",
         [](L& s) {
             s.p.locals.push_back("inner");
             loop(s).body.push_back(s.statement(Let{2, s.wide(1)}));
             put(s, i64, {}, Local{2});
         }},
        {"local-once", "bound twice", [](L& s) { s.p.body.push_back(s.p.body[0]); }},
        {"result-type", "not those of its value", [](L& s) { put(s, i32, {}, Local{0}); }},
        {"index-range", "no such local", [](L& s) { put(s, i32, {}, Local{7}); }},
        {"index-range", "no such local", [](L& s) { s.first<Let>().local = 2; }},
        {"names", "two locals", [](L& s) { s.p.locals[1] = "row"; }},
        {"array-scope", "no declaration", [](L& s) { s.p.body.erase(s.p.body.begin() + 3); }},
        {"array-scope", "no declaration", [](L& s) { std::swap(s.p.body[3], s.p.body[4]); }},
        {"array-scope", "no declaration",
         [](L& s) {
             loop(s).body.push_back(s.p.body[8]);
             s.p.body.erase(s.p.body.begin() + 8);
         }},
        {"array-once", "declared twice", [](L& s) { s.p.body.push_back(s.p.body[3]); }},
        {"index-range", "no such register array", [](L& s) { s.first<Declare>().array = 2; }},
        {"index-range", "no such register array", [](L& s) { set(s).array = -1; }},
        {"index-range", "no such register array", [](L& s) { put(s, bf16, {2}, Register{2, s.narrow(0)}); }},
        {"loop-scope", "outside its loop", [](L& s) { put(s, i32, {}, LoopIndex{0}); }},
        {"loop", "are constants", [](L& s) { loop(s).end = s.add(s.narrow(2), s.narrow(2)); }},
        {"loop", "i32 in an unrolled one", [](L& s) { loop(s).end = s.wide(4); }},
        {"loop", "at least 1", [](L& s) { loop(s).step = s.narrow(0); }},
    };
    check_breaches(breaches);
}

TEST_CASE("register indices are known while compiling and stay inside the array") {
    const Breach<L> breaches[] = {
        {"register-index", "alone", [](L& s) { put(s, bf16, {2}, Register{0, s.column}); }},
        {"register-index", "alone", [](L& s) { put(s, bf16, {2}, Register{0, s.thread()}); }},
        {"register-index", "i32 of rank 0", [](L& s) { put(s, bf16, {2}, Register{0, s.wide(0)}); }},
        {"register-index", "divides by zero",
         [](L& s) { put(s, bf16, {2}, Register{0, s.binary(BinaryOp::div, s.narrow(0), s.narrow(0))}); }},
        {"register-index", "alone",
         [](L& s) {
             const Ref j = s.node(i64, {}, LoopIndex{s.p.loops});
             diverge(s, s.statement(Set{0, s.cast(i32, j), pair(s)}), s.wide(4));
         }},
        {"register-index", "65536 turns", [](L& s) { loop(s).end = s.narrow(1 << 17); }},
        {"register-range", "past its array", [](L& s) { put(s, bf16, {2}, Register{0, s.narrow(4)}); }},
        {"register-range", "past its array", [](L& s) { put(s, bf16, {2}, Register{0, s.narrow(-1)}); }},
        {"register-range", "past its array", [](L& s) { loop(s).end = s.narrow(5); }},
        {"register-range", "past its array", [](L& s) { loop(s).step = s.narrow(3), loop(s).end = s.narrow(8); }},
        {"register-range", "past its array", [](L& s) { set(s).index = s.add(set(s).index, s.narrow(1)); }},
        {"register-range", "past its array", [](L& s) { load(s).index = s.narrow(1); }},
    };
    check_breaches(breaches);
}

TEST_CASE("an index over two unrolled loops is judged over all pairs of counters") {
    const auto nested = [](int words, int inner_turns) {
        L s;
        s.p.arrays[0].words = words;
        For inner{s.p.loops++, "j", s.narrow(0), s.narrow(inner_turns), s.narrow(1), true, {}};
        const Ref i = s.node(i32, {}, LoopIndex{0}), j = s.node(i32, {}, LoopIndex{1});
        inner.body.push_back(s.statement(Set{0, s.add(s.mul(i, s.narrow(2)), j), pair(s)}));
        loop(s).body.push_back(s.statement(std::move(inner)));
        return verdict(s.p);
    };
    CHECK(nested(8, 2) == "");
    CHECK_THAT(nested(7, 2), Catch::Contains("register-range"));
    CHECK_THAT(nested(8, 3), Catch::Contains("register-range"));
    CHECK(nested(4, 0) == "");  // never runs
}

TEST_CASE("accesses fit the memory, the vector and the predicate") {
    const Breach<L> breaches[] = {
        {"index-range", "no such memory", [](L& s) { load(s).access.memory = 2; }},
        {"coordinates", "for each axis", [](L& s) { load(s).access.coordinates.pop_back(); }},
        {"coordinates", "i64 or i32", [](L& s) { load(s).access.coordinates[0] = s.real(0); }},
        {"operand-missing", "expression is missing", [](L& s) { load(s).access.coordinates[0] = nullptr; }},
        {"axis", "no such axis", [](L& s) { load(s).access.axis = 2; }},
        {"offset-type", "i64 in global", [](L& s) { load(s).access.offset = s.column; }},
        {"offset-type", "i32 in shared", [](L& s) { shared_store(s).access.offset = s.offset; }},
        {"operand-missing", "expression is missing", [](L& s) { load(s).access.offset = nullptr; }},
        {"predicate", "is boolean", [](L& s) { load(s).access.predicate = s.row; }},
        {"lanes", "power of two", [](L& s) { load(s).access.lanes = 6; }},
        {"lanes", "power of two", [](L& s) { load(s).access.lanes = 0; }},
        {"lanes", "32 bytes", [](L& s) { load(s).access.lanes = 32; }},
        {"lanes", "in global memory", [](L& s) { shared_store(s).access.lanes = 16; }},
        {"lanes", "fill words", [](L& s) { load(s).access.lanes = 1; }},
        {"lanes", "lanes of the access", [](L& s) { global_store(s).words.pop_back(); }},
        {"align", "multiple of the access", [](L& s) { s.p.tensors[0].align = 8; }},
        {"align", "multiple of the access", [](L& s) { s.p.shared[0].byte_offset = 8, s.p.shared_bytes = 4096; }},
        {"fill", "exactly if", [](L& s) { load(s).fill = nullptr; }},
        {"fill", "exactly if", [](L& s) { load(s).access.predicate = nullptr; }},
        {"fill", "of the memory's type", [](L& s) { load(s).fill = s.real(0); }},
        {"operand-type", "array has not the memory's type", [](L& s) { s.p.tensors[0].type = f16; }},
        {"operand-type", "what is stored", [](L& s) { s.p.tensors[1].type = f16; }},
        {"role", "input tensor is stored", [](L& s) { global_store(s).access.memory = 0; }},
        {"operand-missing", "expression is missing", [](L& s) { global_store(s).words[0] = nullptr; }},
    };
    check_breaches(breaches);
}

TEST_CASE("barriers and shuffles need control that is equal for all threads") {
    const Breach<L> breaches[] = {
        {"uniform-control", "a barrier",  // of a condition by warps, also where it is alike for all
         [](L& s) {
             s.p.body.push_back(s.statement(
                 For{s.p.loops++, "k", s.wide(0), s.wide(1), s.wide(1), false, {s.statement(Barrier{})}, true, true}));
         }},
        {"uniform-control", "the threads of a warp",
         [](L& s) {
             s.p.body.push_back(
                 s.statement(For{s.p.loops++, "k", s.wide(0), s.cast(i64, own(s)), s.wide(1), false, {}, true, true}));
         }},
        {"cache", "no cache", [](L& s) { shared_store(s).access.cache = Cache::streaming; }},
        {"uniform-control", "a barrier", [](L& s) { diverge(s, s.statement(Barrier{}), s.cast(i64, s.column)); }},
        {"uniform-control", "a barrier",
         [](L& s) {
             For inner{s.p.loops++, "k", s.wide(0), s.row, s.wide(1), false, {s.statement(Barrier{})}};
             diverge(s, s.statement(std::move(inner)), s.cast(i64, s.column));
         }},
        {"uniform-control", "a shuffle",
         [](L& s) {
             diverge(s, s.statement(Set{0, s.narrow(0), s.node(bf16, {2}, Shuffle{pair(s), 1})}),
                     s.cast(i64, s.column));
         }},
        {"uniform-control", "a shuffle",
         [](L& s) {
             s.p.locals.push_back("all");
             const int local = static_cast<int>(s.p.locals.size()) - 1;
             diverge(s, s.statement(Let{local, s.node(i32, {}, WarpReduce{ReduceOp::max, s.column})}),
                     s.cast(i64, s.column));
         }},
        {"uniform-control", "lanes leave out",
         [](L& s) { put(s, boolean, {}, Binary{BinaryOp::bit_or, own(s), vote(s)}); }},
        {"uniform-control", "lanes leave out",
         [](L& s) {
             const Ref sum = s.node(i32, {}, WarpReduce{ReduceOp::sum, s.column});
             put(s, i32, {}, Select{own(s), s.node(i32, {}, Binary{BinaryOp::add, sum, sum}), s.column});
         }},
        {"operand-type", "not defined", [](L& s) { put(s, i64, {}, WarpReduce{ReduceOp::max, s.row}); }},
        {"condition", "from 0 to 0 or 1",
         [](L& s) {
             s.p.body.push_back(s.statement(For{s.p.loops++, "c", s.wide(0), s.wide(2), s.wide(1), false, {}, true}));
         }},
        {"condition", "from 0 to 0 or 1",
         [](L& s) {
             s.p.body.push_back(s.statement(For{s.p.loops++, "c", s.wide(1), s.row, s.wide(1), false, {}, true}));
         }},
    };
    check_breaches(breaches);
}

TEST_CASE("nodes, statements and tables stand in their stage") {
    const Breach<L> breaches[] = {
        {"stage", "kind of node", [](L& s) { put(s, i64, {}, BlockIndex{0}); }},
        {"stage", "kind of node", [](L& s) { put(s, i64, {2}, Coordinate{0}); }},
        {"stage", "kind of node", [](L& s) { put(s, bf16, {1}, Reduce{ReduceOp::max, pair(s), 0}); }},
        {"stage", "kind of node", [](L& s) { put(s, bf16, {1}, Least{pair(s), 0, 0, 1}); }},
        {"stage", "kind of node", [](L& s) { put(s, bf16, {2}, Broadcast{one(s)}); }},
        {"stage", "kind of node", [](L& s) { put(s, bf16, {2}, Reshape{pair(s)}); }},
        {"stage", "kind of node", [](L& s) { put(s, bf16, {2}, Permute{pair(s), {0}}); }},
        {"stage", "kind of node", [](L& s) { put(s, bf16, {2}, Convert{pair(s)}); }},
        {"stage", "kind of node", [](L& s) { put(s, bf16, {2}, VariableRead{0}); }},
        {"stage", "kind of node", [](L& s) { put(s, bf16, {2}, Load{{}, one(s), {}}); }},
        {"stage", "kind of statement", [](L& s) { s.p.body.push_back(s.statement(Bind{s.wide(1)})); }},
        {"stage", "kind of statement", [](L& s) { s.p.body.push_back(s.statement(Store{{}, s.row})); }},
        {"stage", "kind of statement", [](L& s) { s.p.body.push_back(s.statement(Assign{0, s.row})); }},
        {"comment", "stays on its line", [](L& s) { s.first<Comment>().text = "a\nb"; }},
        {"comment", "stays on its line", [](L& s) { s.first<Comment>().text = "a\\"; }},
        {"shared-tile", "has a place", [](L& s) { s.p.shared[0].byte_offset = -1; }},
        {"shared-tile", "runs past", [](L& s) { s.p.shared_bytes = 2047; }},
    };
    check_breaches(breaches);
}

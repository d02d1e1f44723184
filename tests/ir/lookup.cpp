#include "tests/ir/verify_support.hpp"

// What the verifier says of tables of codes and of bitwise reductions, in both stages.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

using R = Recorded;
using L = Lowered;

Ref codes(R& s) { return s.node(e2m1, {4, 8}, Broadcast{s.node(e2m1, {1, 1}, Broadcast{s.constant(e2m1, 5)})}); }
Ref spread(R& s, Element type, Shape shape = {4, 8}) {
    const Ref one = s.node(type, shape.rank() == 2 ? Shape{1, 1} : Shape{1}, Broadcast{s.constant(type, 1)});
    return s.node(type, shape, Broadcast{one});
}
std::vector<Ref> entries(R& s, Element type, Shape shape = {4, 8}, std::size_t count = 8) {
    return std::vector<Ref>(count, spread(s, type, shape));
}
void put(R& s, Element type, Shape shape, Op op) { s.bind(s.p.body, s.node(type, shape, std::move(op))); }

void put(L& s, Element type, Shape shape, Op op) {
    const int local = static_cast<int>(s.p.locals.size());
    s.p.locals.push_back("extra" + std::to_string(local));
    s.p.body.push_back(s.statement(Let{local, s.node(type, shape, std::move(op))}));
}
Ref word(L& s, Element type, int lanes) {
    return s.node(type, {lanes}, Pack{std::vector<Ref>(static_cast<std::size_t>(lanes), s.constant(type, 1))});
}
Ref code(L& s) { return s.constant(e2m1, 5); }
Ref truth(L& s) { return s.constant(boolean, 1); }

}  // namespace

TEST_CASE("lookups hold in both stages, with and without signs") {
    R r;
    for (const Element type : {e2m1, e4m3, u8}) put(r, type, {4, 8}, Lookup{codes(r), entries(r, type), nullptr});
    put(r, e4m3, {4, 8}, Lookup{codes(r), entries(r, e4m3), spread(r, boolean)});
    CHECK(verdict(r.p) == "");
    L l;
    put(l, e2m1, {}, Lookup{code(l), {word(l, e2m1, 8)}, nullptr});
    put(l, e2m1, {8}, Lookup{word(l, e2m1, 8), {word(l, e2m1, 8)}, truth(l)});
    put(l, e4m3, {}, Lookup{code(l), {word(l, e4m3, 4), word(l, e4m3, 4)}, truth(l)});
    put(l, e4m3, {4}, Lookup{word(l, e2m1, 4), {word(l, e4m3, 4), word(l, e4m3, 4)}, nullptr});
    put(l, u8, {4}, Lookup{word(l, e2m1, 4), {word(l, u8, 4), word(l, u8, 4)}, nullptr});
    CHECK(verdict(l.p) == "");
}

TEST_CASE("a recorded lookup has e2m1 codes, eight tiles of their extents, and signs of the same") {
    const Breach<R> breaches[] = {
        {"operand-missing", "operand is missing",
         [](R& s) { put(s, u8, {4, 8}, Lookup{nullptr, entries(s, u8), nullptr}); }},
        {"operand-missing", "operand is missing",
         [](R& s) {
             auto table = entries(s, u8);
             table[3] = nullptr;
             put(s, u8, {4, 8}, Lookup{codes(s), table, nullptr});
         }},
        {"operand-type", "index is e2m1",
         [](R& s) { put(s, u8, {4, 8}, Lookup{spread(s, e4m3), entries(s, u8), nullptr}); }},
        {"operand-type", "not defined", [](R& s) { put(s, f32, {4, 8}, Lookup{codes(s), entries(s, f32), nullptr}); }},
        {"operand-type", "not the node's",
         [](R& s) { put(s, e4m3, {4, 8}, Lookup{codes(s), entries(s, u8), nullptr}); }},
        {"operand-shape", "not the node's",
         [](R& s) { put(s, u8, {8}, Lookup{codes(s), entries(s, u8, {8}), nullptr}); }},
        {"operand-shape", "not the node's",
         [](R& s) { put(s, u8, {4, 8}, Lookup{codes(s), entries(s, u8, {4, 1}), nullptr}); }},
        {"table-size", "8 entries",
         [](R& s) { put(s, u8, {4, 8}, Lookup{codes(s), entries(s, u8, {4, 8}, 7), nullptr}); }},
        {"table-size", "8 entries",
         [](R& s) { put(s, u8, {4, 8}, Lookup{codes(s), entries(s, u8, {4, 8}, 9), nullptr}); }},
        {"operand-type", "signs are boolean",
         [](R& s) { put(s, e2m1, {4, 8}, Lookup{codes(s), entries(s, e2m1), spread(s, u8)}); }},
        {"operand-type", "u8 has none",
         [](R& s) { put(s, u8, {4, 8}, Lookup{codes(s), entries(s, u8), spread(s, boolean)}); }},
        {"operand-shape", "another shape",
         [](R& s) { put(s, e2m1, {4, 8}, Lookup{codes(s), entries(s, e2m1), spread(s, boolean, {4, 1})}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("a lowered lookup has its table in words, one sign for all lanes, and a whole word of results or one") {
    const Breach<L> breaches[] = {
        {"table-size", "8 entries", [](L& s) { put(s, u8, {}, Lookup{code(s), {word(s, u8, 4)}, nullptr}); }},
        {"table-size", "8 entries",
         [](L& s) { put(s, e2m1, {}, Lookup{code(s), {word(s, e2m1, 8), word(s, e2m1, 8)}, nullptr}); }},
        {"operand-shape", "words of 32 bits",
         [](L& s) { put(s, u8, {}, Lookup{code(s), {word(s, u8, 4), word(s, u8, 2)}, nullptr}); }},
        {"operand-shape", "words of 32 bits",
         [](L& s) { put(s, e2m1, {}, Lookup{code(s), {word(s, e2m1, 4)}, nullptr}); }},
        {"operand-shape", "not the node's",
         [](L& s) { put(s, e2m1, {8}, Lookup{code(s), {word(s, e2m1, 8)}, nullptr}); }},
        {"operand-shape", "another shape",
         [](L& s) { put(s, e2m1, {8}, Lookup{word(s, e2m1, 8), {word(s, e2m1, 8)}, word(s, boolean, 4)}); }},
        {"result-shape", "fill a word",
         [](L& s) { put(s, e2m1, {4}, Lookup{word(s, e2m1, 4), {word(s, e2m1, 8)}, nullptr}); }},
        {"result-shape", "fill a word",
         [](L& s) { put(s, u8, {2}, Lookup{word(s, e2m1, 2), {word(s, u8, 4), word(s, u8, 4)}, nullptr}); }},
    };
    check_breaches(breaches);
}

TEST_CASE("only whole numbers are joined bit by bit") {
    R r;
    put(r, i64, {4, 1}, Reduce{ReduceOp::bit_or, r.bind(r.p.body, r.node(i64, {4, 8}, Coordinate{0})), 1});
    CHECK(verdict(r.p) == "");
    L l;
    put(l, u32, {}, WarpReduce{ReduceOp::bit_or, l.constant(u32, 1)});
    CHECK(verdict(l.p) == "");
    const Breach<R> recorded[] = {
        {"operand-type", "not defined", [](R& s) { put(s, f32, {4, 1}, Reduce{ReduceOp::bit_or, spread(s, f32), 1}); }},
        {"operand-type", "not defined",
         [](R& s) { put(s, boolean, {4, 1}, Reduce{ReduceOp::bit_or, spread(s, boolean), 1}); }},
    };
    check_breaches(recorded);
    const Breach<L> lowered[] = {
        {"operand-type", "not defined",
         [](L& s) { put(s, boolean, {}, WarpReduce{ReduceOp::bit_or, s.constant(boolean, 1)}); }},
        {"operand-type", "not defined", [](L& s) { put(s, u8, {}, WarpReduce{ReduceOp::bit_or, s.constant(u8, 1)}); }},
    };
    check_breaches(lowered);
}

#include "dsl/emit/expression.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "tests/emit/builder.hpp"

using namespace tessera;
using test::BinaryOp;
using test::Builder;
using test::Ref;
using test::UnaryOp;

namespace {

/// A program with named registers to make expressions from.
struct Bench : Builder {
    Bench() : Builder("bench") {
        h = array("h", bf16, 2, 8);
        q = array("q", e4m3, 4, 8);
        g = array("g", f16, 2, 8);
        u = array("u", u8, 4, 8);
        x = array("x", f32, 1, 8);
        one = array("one", i8, 1, 1);
        n = array("n", e2m1, 8, 8);
        t = array("t", e5m6, 2, 8);
    }
    int h, q, g, u, x, one, n, t;

    std::string scalar(Ref node) { return print(node, false); }
    std::string word(Ref node) { return print(node, true); }
    using Builder::word;

private:
    std::string print(Ref node, bool as_word) {
        const emit::Names names(program);
        emit::HelperSet helpers;
        emit::Expressions expressions(program, names, helpers);
        return (as_word ? expressions.word(node) : expressions.scalar(node)).text;
    }
};

}  // namespace

TEST_CASE("expressions: parentheses only where C++ or the reader needs them") {
    Bench b;
    const Ref t = b.thread(), two = b.i(2);
    CHECK(b.scalar(b.add(b.mul(t, two), two)) == "thread * 2 + 2");
    CHECK(b.scalar(b.mul(b.add(t, two), two)) == "(thread + 2) * 2");
    CHECK(b.scalar(b.sub(t, b.sub(t, two))) == "thread - (thread - 2)");
    CHECK(b.scalar(b.sub(b.sub(t, two), t)) == "thread - 2 - thread");
    CHECK(b.scalar(b.add(t, b.add(t, two))) == "thread + thread + 2");
    CHECK(b.scalar(b.mul(t, b.binary(BinaryOp::div, t, two))) == "thread * (thread / 2)");
    CHECK(b.scalar(b.binary(BinaryOp::shl, b.add(t, two), two)) == "(thread + 2) << 2");
    CHECK(b.scalar(b.select(b.less(t, two), b.add(t, two), t)) == "thread < 2 ? thread + 2 : thread");
    CHECK(b.scalar(b.unary(UnaryOp::neg, b.unary(UnaryOp::neg, t))) == "-(-thread)");
    CHECK(b.scalar(b.add(t, b.i(-7))) == "thread - 7");
}

TEST_CASE("expressions: floats keep the order in which they are written") {
    Bench b;
    const Ref x = b.word(b.x, b.i(0)), y = b.word(b.x, b.i(1));
    CHECK(b.scalar(b.add(x, b.add(y, x))) == "x[0] + (x[1] + x[0])");
    CHECK(b.scalar(b.mul(x, b.mul(y, x))) == "x[0] * (x[1] * x[0])");
    CHECK(b.scalar(b.binary(BinaryOp::max, x, b.f(1))) == "fmaxf(x[0], 1.0f)");
    CHECK(b.scalar(b.binary(BinaryOp::max_nan, x, b.f(1))) == "max_nan(x[0], 1.0f)");
}

TEST_CASE("expressions: widening casts and suffixes only where nothing else says the type") {
    Bench b;
    const Ref t = b.thread();
    CHECK(b.scalar(b.mul(b.block(), b.l(4))) == "block * 4");
    CHECK(b.scalar(b.add(b.block(), b.cast(i64, b.add(t, b.i(1))))) == "block + (thread + 1)");
    CHECK(b.scalar(b.add(b.block(), b.add(b.block(), b.l(1)))) == "block + block + 1");
    CHECK(b.scalar(b.mul(b.cast(i64, t), b.l(4))) == "(long long)thread * 4");
    CHECK(b.scalar(b.mul(b.block(), b.cast(i64, b.add(t, b.i(1))))) == "block * (thread + 1)");
    CHECK(b.scalar(b.add(b.l(1), b.l(2))) == "1ll + 2");
    CHECK(b.scalar(b.add(b.block(), b.l(1ll << 31))) == "block + 2147483648ll");
    CHECK(b.scalar(b.binary(BinaryOp::min, b.block(), b.l(4))) == "min(block, 4ll)");
}

TEST_CASE("expressions: literals") {
    Bench b;
    CHECK(b.scalar(b.f(448)) == "448.0f");
    CHECK(b.scalar(b.f(-2)) == "-2.0f");
    CHECK(b.scalar(b.f(-0.0f)) == "-0.0f");
    CHECK(b.scalar(b.f(0.5f)) == "0x1p-1f /* 0.5 */");
    CHECK(b.scalar(b.constant(f32, 0x7fc00000)) == "__uint_as_float(0x7fc00000u /* NaN */)");
    CHECK(b.scalar(b.constant(f32, 0xff800000)) == "__uint_as_float(0xff800000u /* -inf */)");
    CHECK(b.scalar(b.constant(f64, 0x3fb999999999999a)) == "0x1.999999999999ap-4 /* 0.1 */");
    CHECK(b.scalar(b.constant(bf16, 0x3f80)) == "0x3f80u /* 1 */");
    CHECK(b.scalar(b.constant(f16, 0x0001)) == "0x0001u /* 5.960464477539063e-08 */");
    CHECK(b.scalar(b.constant(e4m3, 0x7e)) == "0x7eu /* 448 */");
    CHECK(b.scalar(b.constant(e4m3, 0x7f)) == "0x7fu");
    CHECK(b.scalar(b.constant(i8, 0xff)) == "-1");
    CHECK(b.scalar(b.constant(u64, ~0ull)) == "18446744073709551615ull");
    CHECK(b.scalar(b.constant(i64, 1ull << 63)) == "-9223372036854775807ll - 1");
    CHECK(b.scalar(b.constant(boolean, 1)) == "true");
}

TEST_CASE("expressions: bf16 becomes f32 with one instruction from either half") {
    Bench b;
    const Ref w = b.word(b.h, b.i(3));
    CHECK(b.scalar(b.cast(f32, b.lane(w, 0))) == "__uint_as_float(h[3] << 16)");
    CHECK(b.scalar(b.cast(f32, b.lane(w, 1))) == "__uint_as_float(h[3] & 0xffff0000u)");
    CHECK(b.scalar(b.cast(f32, b.constant(bf16, 0x4040))) == "3.0f");
}

TEST_CASE("expressions: other narrow floats become f32 by their lane") {
    Bench b;
    const Ref q = b.word(b.q, b.i(0)), g = b.word(b.g, b.i(1));
    CHECK(b.scalar(b.cast(f32, b.lane(q, 3))) == "f32_from_e4m3(q[0], 3)");
    CHECK(b.scalar(b.cast(f32, b.lane(g, 1))) == "f32_from_f16(g[1], 1)");
    CHECK(b.scalar(b.cast(f32, b.bitcast(ue8m0, b.lane(b.word(b.u, b.i(0)), 2)))) ==
          "__uint_as_float(((u[0] >> 16) & 0xffu) << 23)");
}

TEST_CASE("expressions: packs of casts are one conversion of all elements") {
    Bench b;
    std::vector<Ref> x;
    for (int i = 0; i < 4; ++i) x.push_back(b.word(b.x, b.i(i)));
    CHECK(b.word(b.pack({b.cast(bf16, x[0]), b.cast(bf16, x[1])})) == "bf16x2_from_f32(x[0], x[1])");
    const auto casts = b.pack({b.cast(e4m3, x[0]), b.cast(e4m3, x[1]), b.cast(e4m3, x[2]), b.cast(e4m3, x[3])});
    CHECK(b.word(casts) == "e4m3x4_from_f32(x[0], x[1], x[2], x[3])");
    CHECK(b.word(b.cast(e4m3, b.pack({x[0], x[1], x[2], x[3]}))) == "e4m3x4_from_f32(x[0], x[1], x[2], x[3])");
    CHECK(b.word(b.pack({b.cast(e4m3, x[0]), b.cast(e4m3, x[1])})) == "e4m3x2_from_f32(x[0], x[1])");
    CHECK(b.scalar(b.cast(e4m3, x[0])) == "e4m3x2_from_f32(x[0], 0.0f)");
    const Ref h = b.word(b.h, b.i(0));
    CHECK(b.word(b.cast(f16, h)) == "f16x2_from_f32(__uint_as_float(h[0] << 16), __uint_as_float(h[0] & 0xffff0000u))");
}

TEST_CASE("expressions: a pack is a bounded conversion only where all its casts are bounded") {
    Bench b;
    std::vector<Ref> full, halves;
    for (int i = 0; i < 4; ++i) {
        full.push_back(b.bounded_cast(e2m1, b.word(b.x, b.i(i))));
        halves.push_back(b.bounded_cast(e2m1, b.lane(b.word(b.h, b.i(i / 2)), i % 2)));
    }
    CHECK(b.word(b.pack(full)) == "e2m1x4_from_bounded_f32(x[0], x[1], x[2], x[3])");
    CHECK(b.scalar(full[1]) == "e2m1x1_from_bounded_f32(x[1])");
    CHECK(b.word(b.pack(halves)) == "e2m1x4_from_bounded_bf16(h[0], h[1])");
    CHECK(b.scalar(halves[0]) == "e2m1x2_from_bounded_bf16(h[0])");
    full[2] = b.cast(e2m1, b.word(b.x, b.i(2)));
    halves[3] = b.cast(e2m1, b.lane(b.word(b.h, b.i(1)), 1));
    CHECK(b.word(b.pack(full)) == "e2m1x4_from_f32(x[0], x[1], x[2], x[3])");
    CHECK(b.word(b.pack(halves)) == "e2m1x4_from_bf16(h[0], h[1])");
}

TEST_CASE("expressions: packs of casts to e2m1 and e5m6 are one conversion, bf16 by words") {
    Bench b;
    std::vector<Ref> x, full, halves, products;
    for (int i = 0; i < 8; ++i) {
        x.push_back(b.word(b.x, b.i(i)));
        full.push_back(b.cast(e2m1, x.back()));
        const Ref word = b.word(b.h, b.i(i / 2));
        halves.push_back(b.cast(e2m1, b.lane(word, i % 2)));
        products.push_back(b.cast(e2m1, b.lane(b.mul(word, b.word(b.h, b.i(7))), i % 2)));
    }
    const auto some = [&](const std::vector<Ref>& all, int count) {
        return b.pack({all.begin(), all.begin() + count});
    };
    CHECK(b.word(some(full, 8)) == "e2m1x8_from_f32(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7])");
    CHECK(b.word(some(full, 4)) == "e2m1x4_from_f32(x[0], x[1], x[2], x[3])");
    CHECK(b.word(some(full, 2)) == "e2m1x2_from_f32(x[0], x[1])");
    CHECK(b.scalar(full[3]) == "e2m1x1_from_f32(x[3])");
    CHECK(b.word(some(halves, 8)) == "e2m1x8_from_bf16(h[0], h[1], h[2], h[3])");
    CHECK(b.word(some(halves, 4)) == "e2m1x4_from_bf16(h[0], h[1])");
    CHECK(b.word(some(halves, 2)) == "e2m1x2_from_bf16(h[0])");
    CHECK(b.scalar(halves[1]) == "e2m1x2_from_bf16(h[0] >> 16)");
    CHECK(b.word(b.cast(e2m1, b.word(b.h, b.i(2)))) == "e2m1x2_from_bf16(h[2])");
    CHECK(b.word(some(products, 4)) == "e2m1x4_from_bf16(mul_bf16x2(h[0], h[7]), mul_bf16x2(h[1], h[7]))");
    CHECK(b.word(b.pack({halves[0], halves[2]})) == "e2m1x2_from_bf16(__byte_perm(h[0], h[1], 0x5410))");
    CHECK(b.word(b.pack({b.cast(e5m6, x[0]), b.cast(e5m6, x[1])})) == "e5m6x2_from_f32(x[0], x[1])");
    CHECK(b.scalar(b.cast(e5m6, b.lane(b.word(b.h, b.i(0)), 0))) == "e5m6_from_f32(__uint_as_float(h[0] << 16))");
}

TEST_CASE("expressions: packs of casts from f16 to bytes go by words") {
    Bench b;
    const Ref g = b.word(b.g, b.i(0)), k = b.word(b.g, b.i(1)), product = b.mul(g, k);
    const auto casts = [&](Element to, std::vector<Ref> halves) {
        for (Ref& half : halves) half = b.cast(to, half);
        return b.word(b.pack(halves));
    };
    CHECK(casts(e4m3, {b.lane(g, 0), b.lane(g, 1), b.lane(k, 0), b.lane(k, 1)}) == "e4m3x4_from_f16(g[0], g[1])");
    CHECK(casts(e5m2, {b.lane(g, 0), b.lane(g, 1), b.lane(k, 0), b.lane(k, 1)}) == "e5m2x4_from_f16(g[0], g[1])");
    CHECK(casts(e4m3, {b.lane(product, 0), b.lane(product, 1)}) == "e4m3x2_from_f16(mul_f16x2(g[0], g[1]))");
    CHECK(casts(e4m3, {b.lane(g, 1), b.lane(k, 0)}) == "e4m3x2_from_f16(__byte_perm(g[0], g[1], 0x5432))");
    CHECK(b.scalar(b.cast(e4m3, b.lane(g, 1))) == "e4m3x2_from_f32(f32_from_f16(g[0], 1), 0.0f)");
}

TEST_CASE("expressions: packed formats are decoded a word or half a word at once") {
    Bench b;
    const Ref n = b.word(b.n, b.i(0)), t = b.word(b.t, b.i(1)), q = b.word(b.q, b.i(0));
    const auto casts = [&](Element to, Ref word, std::vector<int> lanes) {
        std::vector<Ref> all;
        for (const int lane : lanes) all.push_back(b.cast(to, b.lane(word, lane)));
        return b.word(b.pack(all));
    };
    CHECK(casts(bf16, n, {4, 5}) == "bf16x2_from_e2m1(n[0], 2)");
    CHECK(casts(f16, n, {0, 1}) == "f16x2_from_e2m1(n[0], 0)");
    CHECK(casts(e4m3, n, {4, 5, 6, 7}) == "e4m3x4_from_e2m1(n[0], 1)");
    CHECK(casts(bf16, n, {0, 4}) == "__byte_perm(bf16x2_from_e2m1(n[0], 0), bf16x2_from_e2m1(n[0], 2), 0x5410)");
    CHECK(b.scalar(b.cast(bf16, b.lane(n, 3))) == "bf16x2_from_e2m1(n[0], 1) >> 16");
    CHECK(b.scalar(b.cast(f32, b.lane(n, 3))) == "f32_from_e2m1(n[0], 3)");
    CHECK(b.scalar(b.cast(f32, b.cast(bf16, b.lane(n, 3)))) ==
          "__uint_as_float(bf16x2_from_e2m1(n[0], 1) & 0xffff0000u)");
    CHECK(casts(f16, t, {0, 1}) == "t[1] << 4");
    CHECK(casts(bf16, t, {0, 1}) == "bf16x2_from_f32(f32_from_f16(t[1] << 4, 0), f32_from_f16(t[1] << 4, 1))");
    CHECK(b.scalar(b.cast(f32, b.lane(t, 1))) == "f32_from_f16(t[1] << 4, 1)");
    CHECK(casts(f16, q, {2, 3}) == "f16x2_from_e4m3(q[0], 1)");
    CHECK(casts(bf16, q, {2, 3}) == "bf16x2_from_f32(f32_from_e4m3(q[0], 2), f32_from_e4m3(q[0], 3))");
}

TEST_CASE("expressions: codes of four bits are moved by bytes where they can be") {
    Bench b;
    const Ref n0 = b.word(b.n, b.i(0)), n1 = b.word(b.n, b.i(1));
    const auto pack = [&](std::vector<std::pair<Ref, int>> lanes) {
        std::vector<Ref> all;
        for (const auto& [word, lane] : lanes) all.push_back(b.lane(word, lane));
        return b.word(b.pack(all));
    };
    CHECK(pack({{n0, 0}, {n0, 1}, {n0, 2}, {n0, 3}}) == "n[0]");
    CHECK(pack({{n0, 2}, {n0, 3}, {n1, 0}, {n1, 1}}) == "__byte_perm(n[0], n[1], 0x3241)");
    CHECK(pack({{n0, 1}, {n0, 2}}) == "(n[0] >> 4) & 0x000000ffu");
    CHECK(pack({{n0, 0}, {n1, 0}}) == "(n[0] & 0x0000000fu) | ((n[1] << 4) & 0x000000f0u)");
    CHECK(b.word(b.pack({b.lane(n0, 0), b.constant(e2m1, 5)})) == "(n[0] & 0x0000000fu) | 0x00000050u");
    CHECK(b.word(b.pack({b.constant(e2m1, 3), b.constant(e2m1, 5)})) == "0x00000053u");
    CHECK(b.word(b.bitcast(e2m1, b.lane(b.word(b.u, b.i(0)), 1), {2})) == "(u[0] >> 8) & 0xffu");
    CHECK(b.word(b.unary(UnaryOp::abs, n0)) == "n[0] & 0x77777777u");
    CHECK(b.word(b.unary(UnaryOp::neg, b.word(b.t, b.i(0)))) == "t[0] ^ 0x08000800u");
    CHECK(b.scalar(b.constant(e2m1, 0xf)) == "0xfu /* -6 */");
    CHECK(b.scalar(b.constant(e5m6, 0x7bf)) == "0x7bfu /* 65024 */");
}

TEST_CASE("expressions: exp, fma and bounded division") {
    Bench b;
    const Ref x = b.word(b.x, b.i(0)), y = b.word(b.x, b.i(1));
    CHECK(b.scalar(b.unary(UnaryOp::exp, x)) == "expf(x[0])");
    CHECK(b.scalar(b.unary(UnaryOp::sqrt, x)) == "sqrtf(x[0])");
    CHECK(b.scalar(b.unary(UnaryOp::log1p, x)) == "log1pf(x[0])");
    CHECK(b.scalar(b.make(f32, {}, ir::Fma{x, b.add(y, x), b.f(1)})) == "__fmaf_rn(x[0], x[1] + x[0], 1.0f)");
    CHECK(b.scalar(b.binary(BinaryOp::div_bounded, x, y)) == "divide_bounded(x[0], x[1])");
    CHECK_THROWS_AS(b.scalar(b.unary(UnaryOp::exp, b.constant(f64, 0))), InternalError);
    CHECK_THROWS_AS(b.scalar(b.binary(BinaryOp::div_bounded, b.constant(f64, 0), b.constant(f64, 0))), InternalError);
}

TEST_CASE("expressions: reductions over a warp") {
    Bench b;
    const auto all = [&](ir::ReduceOp op, Ref v) { return b.scalar(b.make(v->type, {}, ir::WarpReduce{op, v})); };
    CHECK(all(ir::ReduceOp::sum, b.thread()) == "__reduce_add_sync(0xffffffffu, thread)");
    CHECK(all(ir::ReduceOp::max, b.thread()) == "__reduce_max_sync(0xffffffffu, thread)");
    CHECK(all(ir::ReduceOp::min, b.cast(u32, b.thread())) == "__reduce_min_sync(0xffffffffu, (unsigned)thread)");
    CHECK(all(ir::ReduceOp::bit_or, b.cast(u32, b.thread())) == "__reduce_or_sync(0xffffffffu, (unsigned)thread)");
    CHECK(all(ir::ReduceOp::bit_or, b.thread()) == "(int)__reduce_or_sync(0xffffffffu, thread)");
    CHECK(b.scalar(b.make(u32, {}, ir::Match{b.thread(), 0})) == "__match_any_sync(0xffffffffu, thread)");
    CHECK(b.scalar(b.unary(UnaryOp::popcount, b.cast(u32, b.thread()))) == "(unsigned)__popc((unsigned)thread)");
    const Ref truth = b.less(b.thread(), b.i(2));
    CHECK(all(ir::ReduceOp::max, truth) == "__any_sync(0xffffffffu, thread < 2) != 0");
    CHECK(all(ir::ReduceOp::min, truth) == "__all_sync(0xffffffffu, thread < 2) != 0");
}

TEST_CASE("expressions: a wide source is rounded once on its way to a narrow float") {
    Bench b;
    CHECK(b.scalar(b.cast(bf16, b.thread())) == "bf16x2_from_f32(f32_odd_from_i64(thread), 0.0f)");
    CHECK(b.scalar(b.cast(f16, b.constant(f64, 0))) == "f16x2_from_f32(f32_odd_from_f64(0.0), 0.0f)");
    CHECK(b.scalar(b.cast(bf16, b.word(b.one, b.i(0)))) == "bf16x2_from_f32((float)(signed char)one[0], 0.0f)");
}

TEST_CASE("expressions: packs of halves and bytes are byte permutations") {
    Bench b;
    const Ref h0 = b.word(b.h, b.i(0)), h1 = b.word(b.h, b.i(1));
    CHECK(b.word(b.pack({b.lane(h0, 0), b.lane(h1, 0)})) == "__byte_perm(h[0], h[1], 0x5410)");
    CHECK(b.word(b.pack({b.lane(h0, 1), b.lane(h1, 1)})) == "__byte_perm(h[0], h[1], 0x7632)");
    CHECK(b.word(b.pack({b.lane(h0, 1), b.lane(h0, 0)})) == "__byte_perm(h[0], 0u, 0x1032)");
    CHECK(b.word(b.pack({b.lane(h0, 0), b.lane(h0, 1)})) == "h[0]");
    CHECK(b.word(b.pack({b.constant(bf16, 0x3f80), b.constant(bf16, 0x4000)})) == "0x40003f80u");
    CHECK(b.word(b.pack({b.lane(h0, 1), b.constant(bf16, 0)})) == "__byte_perm(h[0], 0u, 0x7632)");
    const auto byte = [&](int word, int lane) { return b.lane(b.word(b.u, b.i(word)), lane); };
    CHECK(b.word(b.pack({byte(0, 0), byte(0, 1), byte(0, 2), byte(0, 3)})) == "u[0]");
    CHECK(b.word(b.pack({byte(0, 3), byte(1, 3), byte(0, 2), byte(1, 2)})) == "__byte_perm(u[0], u[1], 0x6273)");
    CHECK(b.word(b.pack({byte(0, 1), byte(1, 1), byte(2, 1), byte(0, 0)})) ==
          "__byte_perm(__byte_perm(u[0], u[1], 0x0251), u[2], 0x3510)");
    CHECK(b.word(b.pack({byte(0, 1), byte(1, 1), byte(2, 1), byte(3, 1)})) ==
          "__byte_perm(__byte_perm(__byte_perm(u[0], u[1], 0x3251), u[2], 0x3510), u[3], 0x5210)");
}

TEST_CASE("expressions: packed operations keep the word") {
    Bench b;
    const Ref h = b.word(b.h, b.i(0)), k = b.word(b.h, b.i(1)), g = b.word(b.g, b.i(0)), q = b.word(b.q, b.i(0));
    CHECK(b.word(b.unary(UnaryOp::abs, h)) == "h[0] & 0x7fff7fffu");
    CHECK(b.word(b.unary(UnaryOp::neg, q)) == "q[0] ^ 0x80808080u");
    CHECK(b.scalar(b.unary(UnaryOp::abs, b.lane(h, 1))) == "(h[0] >> 16) & 0x7fffu");
    CHECK(b.word(b.binary(BinaryOp::max, h, k)) == "max_bf16x2(h[0], h[1])");
    CHECK(b.word(b.binary(BinaryOp::min_nan, h, b.binary(BinaryOp::max_nan, k, h))) ==
          "min_nan_bf16x2(h[0], max_nan_bf16x2(h[1], h[0]))");
    const auto above = [&](int lane) { return b.cast(bf16, b.binary(BinaryOp::gt, b.lane(h, lane), b.lane(k, lane))); };
    CHECK(b.word(b.pack({above(0), above(1)})) == "one_if_gt_bf16x2(h[0], h[1])");
    const Ref other = b.cast(bf16, b.binary(BinaryOp::ge, b.lane(h, 1), b.lane(k, 1)));
    CHECK(b.word(b.pack({above(0), other})).find("one_if") == std::string::npos);
    CHECK(b.word(b.mul(g, g)) == "mul_f16x2(g[0], g[0])");
    CHECK(b.word(b.shuffle(h, 8)) == "__shfl_xor_sync(0xffffffffu, h[0], 8)");
    CHECK(b.word(b.binary(BinaryOp::div, h, k)) ==
          "__byte_perm(bf16x2_from_f32(__uint_as_float(h[0] << 16) / __uint_as_float(h[1] << 16), 0.0f), "
          "bf16x2_from_f32(__uint_as_float((h[0] >> 16) << 16) / __uint_as_float((h[1] >> 16) << 16), 0.0f), 0x5410)");
}

TEST_CASE("expressions: lanes of small integers are in range") {
    Bench b;
    const Ref u = b.word(b.u, b.i(0));
    CHECK(b.scalar(b.lane(u, 0)) == "u[0] & 0xffu");
    CHECK(b.scalar(b.lane(u, 3)) == "u[0] >> 24");
    CHECK(b.scalar(b.add(b.lane(u, 1), b.constant(u8, 1))) == "(((u[0] >> 8) & 0xffu) + 1) & 0xffu");
    CHECK(b.scalar(b.word(b.one, b.i(0))) == "(signed char)one[0]");
    CHECK(b.scalar(b.bitcast(u16, b.lane(b.word(b.h, b.i(0)), 0))) == "h[0] & 0xffffu");
}

TEST_CASE("expressions: integers from floats truncate and saturate") {
    Bench b;
    const Ref x = b.word(b.x, b.i(0));
    CHECK(b.scalar(b.cast(i32, x)) == "__float2int_rz(x[0])");
    CHECK(b.scalar(b.cast(u64, x)) == "__float2ull_rz(x[0])");
    CHECK(b.scalar(b.cast(i8, x)) == "min(max(__float2int_rz(x[0]), -128), 127)");
    CHECK(b.scalar(b.cast(boolean, x)) == "x[0] != 0.0f");
}

TEST_CASE("expressions: what CUDA cannot say is refused in words") {
    Bench b;
    CHECK_THROWS_AS(b.scalar(b.make(i64, {}, ir::BlockIndex{0})), InternalError);
    Builder named("for");
    CHECK_THROWS_WITH(emit::cuda_text(named.program, Target::h200()), Catch::Contains("cannot be called 'for'"));
}

TEST_CASE("expressions: tables of codes, a word at a time and alone") {
    Bench b;
    const int k = b.array("k", e2m1, 4, 2);
    const Ref n = b.word(b.n, b.i(1)), q = b.word(b.q, b.i(0)), r = b.word(b.q, b.i(1)), u = b.word(b.u, b.i(0)),
              v = b.word(b.u, b.i(1)), t = b.word(b.n, b.i(2)), yes = b.let("yes", b.less(b.thread(), b.i(2)));
    const auto looked_up = [&](Element to, int lanes, Ref index, std::vector<Ref> table, Ref signs = nullptr) {
        return b.make(to, lanes == 1 ? Shape{} : Shape{lanes}, ir::Lookup{index, std::move(table), signs});
    };
    const auto codes = [&](std::vector<int> lanes) {
        std::vector<Ref> all;
        for (const int i : lanes) all.push_back(b.lane(n, i));
        return b.pack(all);
    };
    CHECK(b.word(looked_up(e2m1, 8, n, {t})) == "e2m1x8_lookup(n[1], n[2], 0x88888888u)");
    CHECK(b.word(looked_up(e2m1, 8, n, {t}, yes)) == "e2m1x8_lookup(n[1], n[2], yes ? 0x88888888u : 0u)");
    CHECK(b.scalar(looked_up(e2m1, 1, b.lane(n, 2), {t}, yes)) == "e2m1_lookup(n[1] >> 8, n[2], yes ? 0x8u : 0u)");
    // Half a word of codes is not cut out; what does not lie so is put together.
    CHECK(b.word(looked_up(e4m3, 4, codes({0, 1, 2, 3}), {q, r})) == "e4m3x4_lookup(n[1], 0, q[0], q[1], 0x80808080u)");
    CHECK(b.word(looked_up(e4m3, 4, codes({4, 5, 6, 7}), {q, r}, yes)) ==
          "e4m3x4_lookup(n[1], 1, q[0], q[1], yes ? 0x80808080u : 0u)");
    CHECK(b.word(looked_up(u8, 4, codes({4, 5, 6, 7}), {u, v})) == "u8x4_lookup(n[1], 1, u[0], u[1])");
    CHECK(b.word(looked_up(u8, 4, b.word(k, b.i(1)), {u, v})) == "u8x4_lookup(k[1], 0, u[0], u[1])");
    for (const std::vector<int>& lanes : {std::vector<int>{2, 3, 4, 5}, {0, 1, 2, 4}, {3, 2, 1, 0}})
        CHECK_THAT(b.word(looked_up(u8, 4, codes(lanes), {u, v})), Catch::StartsWith("u8x4_lookup(") &&
                                                                       Catch::EndsWith(", 0, u[0], u[1])") &&
                                                                       !Catch::StartsWith("u8x4_lookup(n[1],"));
    CHECK(b.scalar(looked_up(u8, 1, b.lane(n, 0), {u, v})) == "u8_lookup(n[1], u[0], u[1])");
    CHECK(b.scalar(b.lane(looked_up(u8, 4, b.word(k, b.i(0)), {u, v}), 3)) == "u8x4_lookup(k[0], 0, u[0], u[1]) >> 24");
}

TEST_CASE("expressions: e2m1 from f16 by words, and halves computed apart in one operation") {
    Bench b;
    const Ref w = b.word(b.g, b.i(0)), w1 = b.word(b.g, b.i(1));
    std::vector<Ref> casts;
    for (int i = 0; i < 8; ++i) casts.push_back(b.cast(e2m1, b.lane(b.word(b.g, b.i(i / 2)), i % 2)));
    CHECK(b.word(b.pack(casts)) == "e2m1x8_from_f16(g[0], g[1], g[2], g[3])");
    CHECK(b.word(b.pack({casts[0], casts[1], casts[2], casts[3]})) == "e2m1x4_from_f16(g[0], g[1])");
    CHECK(b.word(b.pack({casts[2], casts[3]})) == "e2m1x2_from_f16(g[1])");
    CHECK(b.scalar(casts[1]) == "e2m1x2_from_f16(g[0] >> 16)");
    // Of both kinds of halves: by way of f32.
    CHECK_THAT(b.word(b.pack({casts[0], b.cast(e2m1, b.lane(b.word(b.h, b.i(0)), 1))})),
               Catch::StartsWith("e2m1x2_from_f32("));
    const auto products = [&](BinaryOp first, BinaryOp second) {
        return b.word(
            b.pack({b.binary(first, b.lane(w, 0), b.lane(w1, 0)), b.binary(second, b.lane(w, 1), b.lane(w1, 1))}));
    };
    CHECK(products(BinaryOp::mul, BinaryOp::mul) == "mul_f16x2(g[0], g[1])");
    CHECK_THAT(products(BinaryOp::mul, BinaryOp::add), Catch::Contains("mul") && Catch::Contains("add"));
}

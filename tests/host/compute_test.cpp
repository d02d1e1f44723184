#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "dsl/base/error.hpp"
#include "one_result.hpp"

using namespace host_test;
using ir::UnaryOp;

namespace {

void expect_binary(Element type, BinaryOp op, std::uint64_t a, std::uint64_t b, std::uint64_t expected) {
    for (bool constants : {false, true}) {
        INFO(name_of(type) << " operation " << static_cast<int>(op) << " of " << a << ", " << b
                           << (constants ? " folded" : ""));
        CHECK(result_of({{type, a}, {type, b}}, constants,
                        [&](Builder& k, auto& in) { return k.op(op, in[0], in[1]); }) == expected);
    }
}

void expect_f32(BinaryOp op, float a, float b, float expected) {
    expect_binary(f32, op, bits_of_f32(a), bits_of_f32(b), std::isnan(expected) ? 0x7FFFFFFF : bits_of_f32(expected));
}

void expect_unary(Element type, UnaryOp op, std::uint64_t a, std::uint64_t expected) {
    for (bool constants : {false, true}) {
        INFO(name_of(type) << " operation " << static_cast<int>(op) << " of " << a << (constants ? " folded" : ""));
        CHECK(result_of({{type, a}}, constants, [&](Builder& k, auto& in) { return k.unary(op, in[0]); }) == expected);
    }
}

constexpr std::uint64_t u64_of(std::int64_t v) { return static_cast<std::uint64_t>(v); }

}  // namespace

TEST_CASE("integer operations wrap, truncate and shift by the width of their type", "[host]") {
    expect_binary(i8, BinaryOp::add, 0x7F, 1, 0x80);
    expect_binary(i8, BinaryOp::div, 0x80, 0xFF, 0x80);
    expect_binary(i8, BinaryOp::mod, 0xF9, 3, 0xFF);  // −7 = −2 · 3 − 1
    expect_binary(u8, BinaryOp::div, 0xF9, 3, 83);
    expect_binary(u8, BinaryOp::sub, 1, 2, 0xFF);
    expect_binary(i16, BinaryOp::mul, 0x8000, 0xFFFF, 0x8000);
    expect_binary(u16, BinaryOp::mul, 0xFFFF, 0xFFFF, 1);
    expect_binary(i32, BinaryOp::div, 0x80000000, 0xFFFFFFFF, 0x80000000);
    expect_binary(i32, BinaryOp::div, 0xFFFFFFF9, 2, 0xFFFFFFFD);
    expect_binary(i32, BinaryOp::shr, 0x80000000, 31, 0xFFFFFFFF);
    expect_binary(u32, BinaryOp::shr, 0x80000000, 31, 1);
    expect_binary(i32, BinaryOp::shl, 3, 31, 0x80000000);
    expect_binary(i64, BinaryOp::mul, u64_of(1) << 40, u64_of(-3), u64_of(-3) << 40);
    expect_binary(i64, BinaryOp::div, u64_of(-7), 2, u64_of(-3));
    expect_binary(i64, BinaryOp::mod, u64_of(-7), 2, u64_of(-1));
    expect_binary(i64, BinaryOp::shr, u64_of(-8), 1, u64_of(-4));
    expect_binary(u64, BinaryOp::shr, u64_of(-8), 60, 15);
    expect_binary(i32, BinaryOp::min, 0xFFFFFFFF, 1, 0xFFFFFFFF);
    expect_binary(u32, BinaryOp::min, 0xFFFFFFFF, 1, 1);
    expect_binary(i64, BinaryOp::max, u64_of(-1), 1, 1);
    expect_binary(u32, BinaryOp::bit_xor, 0xF0F0F0F0, 0xFFFF0000, 0x0F0FF0F0);
    expect_binary(boolean, BinaryOp::bit_and, 1, 0, 0);
    expect_binary(boolean, BinaryOp::bit_or, 1, 0, 1);
    expect_unary(i8, UnaryOp::abs, 0x80, 0x80);
    expect_unary(i32, UnaryOp::abs, 0xFFFFFFFB, 5);
    expect_unary(i64, UnaryOp::neg, 5, u64_of(-5));
    expect_unary(u16, UnaryOp::bit_not, 0x0F0F, 0xF0F0);
    expect_unary(boolean, UnaryOp::bit_not, 1, 0);
}

TEST_CASE("comparisons of integers go by sign, of floats by order, and NaN is only unequal", "[host]") {
    expect_binary(i32, BinaryOp::lt, 0xFFFFFFFF, 0, 1);
    expect_binary(u32, BinaryOp::lt, 0xFFFFFFFF, 0, 0);
    expect_binary(i64, BinaryOp::ge, 0, u64_of(-1), 1);
    expect_binary(u64, BinaryOp::ge, 0, u64_of(-1), 0);
    expect_binary(i8, BinaryOp::gt, 1, 0x80, 1);
    expect_binary(f32, BinaryOp::eq, 0x80000000, 0, 1);
    expect_binary(bf16, BinaryOp::lt, 0xBF80, 0x3F80, 1);
    for (auto op : {BinaryOp::eq, BinaryOp::ne, BinaryOp::lt, BinaryOp::le, BinaryOp::gt, BinaryOp::ge}) {
        expect_binary(f32, op, 0x7FC00000, 0x3F800000, op == BinaryOp::ne);
        expect_binary(f32, op, 0x7FC00000, 0x7FC00000, op == BinaryOp::ne);
        expect_binary(bf16, op, 0x3F80, 0xFFFF, op == BinaryOp::ne);
    }
}

TEST_CASE("f32 arithmetic is IEEE, with the device's NaN", "[host]") {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
    expect_f32(BinaryOp::add, 1.0f, 0x1p-24f, 1.0f);
    expect_f32(BinaryOp::add, 1.0f, 0x1.8p-24f, 1.0f + 0x1p-23f);
    expect_f32(BinaryOp::mul, 0x1p-100f, 0x1p-45f, 0x1p-145f);  // subnormals are kept
    expect_f32(BinaryOp::div, 1.0f, 3.0f, 0x1.555556p-2f);
    expect_f32(BinaryOp::div, -1.0f, 0.0f, -inf);
    expect_f32(BinaryOp::div, 0.0f, 0.0f, nan);
    expect_f32(BinaryOp::sub, inf, inf, nan);
    expect_f32(BinaryOp::mul, nan, 1.0f, nan);
    expect_unary(f32, UnaryOp::rsqrt, bits_of_f32(4.0f), bits_of_f32(0.5f));
    expect_unary(f32, UnaryOp::rsqrt, bits_of_f32(2.0f), bits_of_f32(0x1.6a09e6p-1f));
    expect_unary(f32, UnaryOp::rsqrt, bits_of_f32(0.0f), bits_of_f32(inf));
    expect_unary(f32, UnaryOp::neg, bits_of_f32(0.0f), 0x80000000);
    expect_unary(f64, UnaryOp::abs, std::bit_cast<std::uint64_t>(-2.5), std::bit_cast<std::uint64_t>(2.5));
    expect_binary(f64, BinaryOp::add, std::bit_cast<std::uint64_t>(0.1), std::bit_cast<std::uint64_t>(0.2),
                  0x3FD3333333333334);
}

TEST_CASE("min and max drop NaN and order the zeros", "[host]") {
    struct Zeros {
        Element type;
        std::uint64_t minus_zero, one, nan, canonical;
    };
    for (const Zeros& z :
         {Zeros{f32, 0x80000000, 0x3F800000, 0xFFC12345, 0x7FFFFFFF}, Zeros{bf16, 0x8000, 0x3F80, 0xFFC1, 0x7FFF},
          Zeros{f16, 0x8000, 0x3C00, 0xFE01, 0x7FFF}, Zeros{e4m3, 0x80, 0x38, 0xFF, 0x7F}}) {
        expect_binary(z.type, BinaryOp::max, z.minus_zero, 0, 0);
        expect_binary(z.type, BinaryOp::max, 0, z.minus_zero, 0);
        expect_binary(z.type, BinaryOp::min, z.minus_zero, 0, z.minus_zero);
        expect_binary(z.type, BinaryOp::min, 0, z.minus_zero, z.minus_zero);
        for (auto op : {BinaryOp::min, BinaryOp::max}) {
            expect_binary(z.type, op, z.nan, z.one, z.one);
            expect_binary(z.type, op, z.one, z.nan, z.one);
            expect_binary(z.type, op, z.nan, z.nan, z.canonical);
        }
        expect_binary(z.type, BinaryOp::max, z.one, 0, z.one);
        expect_binary(z.type, BinaryOp::min, z.one, 0, 0);
    }
}

TEST_CASE("min_nan and max_nan keep NaN and order the zeros", "[host]") {
    struct Zeros {
        Element type;
        std::uint64_t minus_zero, one, nan, canonical;
    };
    for (const Zeros& z : {Zeros{f32, 0x80000000, 0x3F800000, 0xFFC12345, 0x7FFFFFFF},
                           Zeros{bf16, 0x8000, 0x3F80, 0xFFC1, 0x7FFF}, Zeros{f16, 0x8000, 0x3C00, 0xFE01, 0x7FFF}}) {
        for (auto op : {BinaryOp::min_nan, BinaryOp::max_nan}) {
            expect_binary(z.type, op, z.nan, z.one, z.canonical);
            expect_binary(z.type, op, z.one, z.nan, z.canonical);
            expect_binary(z.type, op, z.nan, z.nan, z.canonical);
            expect_binary(z.type, op, z.one, z.one, z.one);
        }
        expect_binary(z.type, BinaryOp::max_nan, z.minus_zero, 0, 0);
        expect_binary(z.type, BinaryOp::min_nan, 0, z.minus_zero, z.minus_zero);
        expect_binary(z.type, BinaryOp::max_nan, 0, z.one, z.one);
        expect_binary(z.type, BinaryOp::min_nan, 0, z.one, 0);
    }
}

TEST_CASE("small floats compute in f32 and round once", "[host]") {
    expect_binary(bf16, BinaryOp::add, 0x3F80, 0x3B80, 0x3F80);  // 1 + 2^-8: a tie, to even
    expect_binary(bf16, BinaryOp::add, 0x3F81, 0x3B80, 0x3F82);  // 1 + 2^-7 + 2^-8: a tie, up to even
    expect_binary(bf16, BinaryOp::mul, 0x7F00, 0x7F00, 0x7F80);
    expect_binary(f16, BinaryOp::mul, 0x7800, 0x4000, 0x7C00);  // 32768 · 2: infinity
    expect_binary(e4m3, BinaryOp::add, 0x7E, 0x7E, 0x7E);       // saturates
    expect_binary(e4m3, BinaryOp::mul, 0x38, 0x81, 0x81);
    expect_unary(bf16, UnaryOp::abs, 0xFFC1, 0x7FC1);
    expect_unary(e4m3, UnaryOp::neg, 0x00, 0x80);
}

TEST_CASE("casts go by value", "[host]") {
    const auto expect_cast = [](Element from, std::uint64_t bits, Element to, std::uint64_t expected) {
        for (bool constants : {false, true}) {
            INFO(name_of(from) << " to " << name_of(to) << " of " << bits);
            CHECK(result_of({{from, bits}}, constants, [&](Builder& b, auto& in) { return b.cast(to, in[0]); }) ==
                  expected);
        }
    };
    expect_cast(f32, bits_of_f32(464), e4m3, 0x7E);
    expect_cast(f32, bits_of_f32(-0.3f), e4m3, 0xAA);
    expect_cast(f32, bits_of_f32(0x1.8p-10f), e4m3, 0x01);
    expect_cast(e4m3, 0x5A, f32, bits_of_f32(20));
    expect_cast(e4m3, 0x01, bf16, 0x3B00);
    expect_cast(bf16, 0x3F80, f32, bits_of_f32(1));
    expect_cast(f32, 0x3F808000, bf16, 0x3F80);
    expect_cast(f32, 0x3F818000, bf16, 0x3F82);
    expect_cast(f32, bits_of_f32(1), f64, std::bit_cast<std::uint64_t>(1.0));
    expect_cast(ue8m0, 0, f32, 0);
    expect_cast(ue8m0, 255, f32, 0x7F800000);
    expect_cast(i32, 0xFFFFFFFF, i64, u64_of(-1));
    expect_cast(u32, 0xFFFFFFFF, i64, 0xFFFFFFFF);
    expect_cast(i64, u64_of(-2), f32, bits_of_f32(-2));
    expect_cast(f32, bits_of_f32(-2.9f), i32, 0xFFFFFFFE);
    expect_cast(f32, bits_of_f32(1e20f), i64, 0x7FFFFFFFFFFFFFFF);
    expect_cast(i64, 0x100000000, boolean, 1);
    expect_cast(boolean, 1, f32, bits_of_f32(1));
    expect_cast(i32, 0x80000000, u8, 0);
}

TEST_CASE("a reduction over a warp stays in the warp and wraps", "[host]") {
    const std::pair<ir::ReduceOp, std::vector<std::int64_t>> expected[] = {
        {ir::ReduceOp::sum, {0xF0000000u * 32ll + 496, 0xF0000000u * 32ll + 496 + 32 * 32}},
        {ir::ReduceOp::max, {0xF000001F, 0xF000003F}},
        {ir::ReduceOp::min, {0xF0000000, 0xF0000020}}};
    for (const auto& [op, sums] : expected) {
        Builder b("warps", 64);
        const int y = b.vector_tensor("y", u32, b.i64c(64));
        b.grid({b.i64c(1)});
        const Ref mine = b.op(BinaryOp::add, b.cast(u32, b.thread()), b.constant(u32, 0xF0000000));
        b.store(global(y, b.thread64()), {b.node(u32, ir::WarpReduce{op, mine})});
        std::vector<std::uint32_t> out(64);
        b.executable().run({{out.data()}, {}});
        for (std::size_t i = 0; i < 64; ++i) CHECK(out[i] == static_cast<std::uint32_t>(sums[i / 32]));
    }
}

TEST_CASE("select and bitcast", "[host]") {
    for (bool constants : {false, true}) {
        for (std::uint64_t c : {0u, 1u}) {
            CHECK(result_of({{boolean, c}, {i64, 5}, {i64, 7}}, constants,
                            [](Builder& b, auto& in) { return b.select(in[0], in[1], in[2]); }) == (c ? 5u : 7u));
        }
        CHECK(result_of({{f32, 0x3F800000}}, constants,
                        [](Builder& b, auto& in) { return b.node(u32, ir::Bitcast{in[0]}); }) == 0x3F800000);
        CHECK(result_of({{u8, 0x11}, {u8, 0x22}, {u8, 0x33}, {u8, 0x84}}, constants,
                        [](Builder& b, auto& in) { return b.node(u32, ir::Bitcast{b.pack(in)}); }) == 0x84332211);
        CHECK(result_of({{u32, 0x84332211}}, constants,
                        [](Builder& b, auto& in) { return b.lane(b.node(bf16, ir::Bitcast{in[0]}, 2), 1); }) == 0x8433);
        CHECK(result_of({{u32, 1}, {u32, 2}}, constants,
                        [](Builder& b, auto& in) { return b.node(u64, ir::Bitcast{b.pack(in)}); }) == 0x200000001);
    }
}

TEST_CASE("packed words: absolute maximum of bf16 pairs, then e4m3 codes", "[host]") {
    // Each thread takes 8 values, scales by 448 / their absolute maximum and stores 8 codes.
    Builder b("cast", 32);
    const int x = b.vector_tensor("x", bf16, b.i64c(256)), y = b.vector_tensor("y", e4m3, b.i64c(256));
    b.grid({b.i64c(1)});
    const Ref first = b.mul(b.thread64(), b.i64c(8));
    const int r = b.array("r", bf16, 2, 4);
    b.load(global(x, first, 8), r, 0);
    Ref pair = b.abs(b.word(r, 0));
    for (int i = 1; i < 4; ++i) pair = b.max(pair, b.abs(b.word(r, i)));
    const Ref largest = b.let(b.cast(f32, b.max(b.lane(pair, 0), b.lane(pair, 1))));
    const Ref factor = b.let(b.op(BinaryOp::div, b.f32c(448), largest));
    const int codes = b.array("codes", e4m3, 4, 2);
    b.loop(b.i32c(0), b.i32c(2), b.i32c(1), true, [&](Ref i) {
        std::vector<Ref> elements;
        for (int half = 0; half < 2; ++half) {
            const Ref word = b.word(r, b.add(b.mul(i, b.i32c(2)), b.i32c(half)));
            const Ref scaled = b.mul(b.cast(f32, word), factor);
            elements.push_back(b.lane(b.cast(e4m3, scaled), 0));
            elements.push_back(b.lane(b.cast(e4m3, scaled), 1));
        }
        b.set(codes, i, b.pack(elements));
    });
    b.store(global(y, first, 8), {b.word(codes, 0), b.word(codes, 1)});
    // 448 / 4 = 112: −4 → −448, 3 → 336 = 1.3125 · 2⁸, a tie between 320 and 352, to even …
    const std::uint16_t in[8] = {0xC080, 0x3F80, 0x4000, 0x4040, 0x0000, 0x8000, 0xBF00, 0x3C00};
    const std::uint8_t out[8] = {0xFE, 0x6E, 0x76, 0x7A, 0x00, 0x80, 0xE6, 0x36};
    alignas(16) std::uint16_t xs[256];
    alignas(16) std::uint8_t ys[256];
    for (int i = 0; i < 256; ++i) xs[i] = in[i % 8];
    for (bool check : {true, false}) {
        std::fill(std::begin(ys), std::end(ys), std::uint8_t{0x55});
        b.executable().run({{xs, ys}, {}}, {.check = check, .workers = 1});
        for (int i = 0; i < 256; ++i) {
            INFO(i);
            REQUIRE(int{ys[i]} == int{out[i % 8]});
        }
    }
}

TEST_CASE("a shuffle reduction sums each warp by itself", "[host]") {
    Builder b("warp_sum", 96);
    const int x = b.vector_tensor("x", i64, b.i64c(96)), y = b.vector_tensor("y", i64, b.i64c(96));
    b.grid({b.i64c(1)});
    const int r = b.array("r", i64, 1, 1);
    b.load(global(x, b.thread64()), r, 0);
    for (int mask = 16; mask > 0; mask /= 2) b.set(r, 0, b.add(b.word(r, 0), b.shuffle(b.word(r, 0), mask)));
    b.store(global(y, b.thread64()), {b.word(r, 0)});
    std::vector<std::int64_t> in(96), out(96);
    for (std::size_t i = 0; i < 96; ++i) in[i] = static_cast<std::int64_t>(i * i * i) - 1000;
    b.executable().run({{in.data(), out.data()}, {}});
    for (std::size_t i = 0; i < 96; ++i) {
        const auto warp = in.begin() + static_cast<std::ptrdiff_t>(i / 32 * 32);
        CHECK(out[i] == std::accumulate(warp, warp + 32, std::int64_t{0}));
    }
}

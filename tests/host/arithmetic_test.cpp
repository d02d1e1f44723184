#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "builder.hpp"
#include "dsl/base/error.hpp"
#include "one_result.hpp"

using namespace host_test;
using Catch::Matchers::Contains;
using ir::UnaryOp;

namespace {

constexpr std::uint64_t nan_bits = 0x7FFFFFFF;

std::uint64_t exp_of(std::uint64_t bits, bool constants = false) {
    return result_of({{f32, bits}}, constants, [](Builder& b, auto& in) { return b.unary(UnaryOp::exp, in[0]); });
}

std::uint64_t fma_of(float x, float y, float z) {
    const auto make = [](Builder& b, auto& in) { return b.fma(in[0], in[1], in[2]); };
    const std::vector<std::pair<Element, std::uint64_t>> operands = {
        {f32, bits_of_f32(x)}, {f32, bits_of_f32(y)}, {f32, bits_of_f32(z)}};
    const std::uint64_t folded = result_of(operands, true, make);
    CHECK(result_of(operands, false, make) == folded);
    return folded;
}

/// y[t] = x[t] op d[t] for 32 threads.
struct Division {
    Builder b{"divide", 32};
    int line = 0;

    explicit Division(BinaryOp op = BinaryOp::div_bounded) {
        const int x = b.vector_tensor("x", f32, b.i64c(32)), d = b.vector_tensor("d", f32, b.i64c(32));
        const int y = b.vector_tensor("y", f32, b.i64c(32));
        b.grid({b.i64c(1)});
        const int r = b.array("r", f32, 1, 2);
        b.load(global(x, b.thread64()), r, 0);
        b.load(global(d, b.thread64()), r, 1);
        const Ref a = b.word(r, 0), divisor = b.word(r, 1);
        const Ref quotient = (line = __LINE__, b.op(op, a, divisor));
        b.store(global(y, b.thread64()), {quotient});
    }

    std::string error(float a, float divisor, int thread) const {
        std::vector<float> x(32, 3.0f), d(32, 7.0f), y(32);
        x[static_cast<std::size_t>(thread)] = a;
        d[static_cast<std::size_t>(thread)] = divisor;
        return error_of<UsageError>(b.executable(), {{x.data(), d.data(), y.data()}, {}});
    }
};

}  // namespace

TEST_CASE("exp is correctly rounded", "[host]") {
    CHECK(exp_of(0) == bits_of_f32(1));
    CHECK(exp_of(0x80000000) == bits_of_f32(1));
    CHECK(exp_of(bits_of_f32(1)) == bits_of_f32(2.71828182845904523536f));
    CHECK(exp_of(bits_of_f32(1), true) == bits_of_f32(2.71828182845904523536f));
    CHECK(exp_of(bits_of_f32(-1)) == bits_of_f32(0.36787944117144232160f));
    CHECK(exp_of(bits_of_f32(0.5f)) == bits_of_f32(1.64872127070012814685f));
    CHECK(exp_of(bits_of_f32(10)) == bits_of_f32(22026.4657948067165170f));
    CHECK(exp_of(bits_of_f32(-20)) == bits_of_f32(2.06115362243855782797e-9f));
    CHECK(exp_of(bits_of_f32(-103.9f)) == 1);  // 7.5e-46, more than half of the smallest number
    CHECK(exp_of(bits_of_f32(-104)) == 0);
    CHECK(exp_of(bits_of_f32(89)) == 0x7F800000);
    CHECK(exp_of(bits_of_f32(std::numeric_limits<float>::max())) == 0x7F800000);
    CHECK(exp_of(0x7F800000) == 0x7F800000);
    CHECK(exp_of(0xFF800000) == 0);
    CHECK(exp_of(0xFFC00000) == nan_bits);
    CHECK(exp_of(1) == bits_of_f32(1));
}

TEST_CASE("exp of the floats whose powers lie closest to the middle of two floats", "[host]") {
    // Found by a search of all floats, the powers in 113-bit arithmetic.
    constexpr std::uint64_t cases[][2] = {{0xC16912CD, 0x34FD331B}, {0xBBF0EDF1, 0x3F7E1FE9}, {0xBAE0E25C, 0x3F7F8FA7},
                                          {0xB3000000, 0x3F800000}, {0x377EFF81, 0x3F800080}, {0x40315B33, 0x417FA47D},
                                          {0x4001B249, 0x40F2CD14}, {0x39C6BE5B, 0x3F800C6D}};
    for (const auto& [x, power] : cases) CHECK(exp_of(x) == power);
}

TEST_CASE("exp of many floats lies within half a unit of the power in long double", "[host]") {
    constexpr std::int64_t count = 64 * 1024;
    Builder b("exps", 128);
    const int x = b.vector_tensor("x", f32, b.i64c(count)), y = b.vector_tensor("y", f32, b.i64c(count));
    b.grid({b.i64c(count / 128)});
    const Ref index = b.let(b.add(b.mul(b.block(), b.i64c(128)), b.thread64()));
    const int r = b.array("r", f32, 1, 1);
    b.load(global(x, index), r, 0);
    b.store(global(y, index), {b.unary(UnaryOp::exp, b.word(r, 0))});
    std::mt19937 random(7);
    std::vector<float> in(count), out(count);
    for (float& v : in) v = std::uniform_real_distribution<float>(-87, 88)(random);
    b.executable().run({{in.data(), out.data()}, {}});
    int wrong = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
        const long double power = std::exp(static_cast<long double>(in[i])), got = out[i];
        wrong += power < (std::nextafter(out[i], -INFINITY) + got) / 2;
        wrong += power > (std::nextafter(out[i], INFINITY) + got) / 2;
    }
    CHECK(wrong == 0);
}

TEST_CASE("sqrt and log1p are correctly rounded", "[host]") {
    const auto of = [](UnaryOp op, float x) {
        const auto make = [&](Builder& b, auto& in) { return b.unary(op, in[0]); };
        const std::uint64_t folded = result_of({{f32, bits_of_f32(x)}}, true, make);
        CHECK(result_of({{f32, bits_of_f32(x)}}, false, make) == folded);
        return folded;
    };
    const float inf = std::numeric_limits<float>::infinity();
    CHECK(of(UnaryOp::sqrt, 2.0f) == 0x3FB504F3);
    CHECK(of(UnaryOp::sqrt, 0x1p-149f) == bits_of_f32(0x1.6a09e6p-75f));
    CHECK(of(UnaryOp::sqrt, -0.0f) == 0x80000000);
    CHECK(of(UnaryOp::sqrt, inf) == bits_of_f32(inf));
    CHECK(of(UnaryOp::sqrt, -1.0f) == nan_bits);
    CHECK(of(UnaryOp::log1p, 1.0f) == bits_of_f32(0x1.62e430p-1f));  // ln 2
    CHECK(of(UnaryOp::log1p, 0x1p-30f) == bits_of_f32(0x1p-30f));
    CHECK(of(UnaryOp::log1p, -0x1p-149f) == bits_of_f32(-0x1p-149f));
    CHECK(of(UnaryOp::log1p, -0.0f) == 0x80000000);
    CHECK(of(UnaryOp::log1p, -1.0f) == bits_of_f32(-inf));
    CHECK(of(UnaryOp::log1p, -1.5f) == nan_bits);
    CHECK(of(UnaryOp::log1p, inf) == bits_of_f32(inf));
    std::mt19937 random(8);
    for (int i = 0; i < 2000; ++i) {
        const float x = std::exp(std::uniform_real_distribution<float>(-60, 60)(random));
        const long double exact = std::log1p(static_cast<long double>(x));
        CHECK(of(UnaryOp::log1p, x) == bits_of_f32(static_cast<float>(exact)));
    }
}

TEST_CASE("fma rounds once", "[host]") {
    const float inf = std::numeric_limits<float>::infinity();
    CHECK(fma_of(1 + 0x1p-12f, 1 - 0x1p-12f, -1) == bits_of_f32(-0x1p-24f));
    CHECK(fma_of(0x1.000002p0f, 0x1.000002p0f, 0x1p-60f) == bits_of_f32(0x1.000004p0f));
    CHECK(fma_of(1 + 0x1p-12f, 0x1p-12f, 1) == bits_of_f32(1 + 0x1p-12f));  // a tie of 2^-24, to even
    CHECK(fma_of(1 + 0x1p-12f, 0x1p-12f, 1 + 0x1p-23f) == bits_of_f32(1 + 0x1p-12f + 0x1p-22f));  // odd: up
    CHECK(fma_of(1 + 0x1p-23f, 1 + 0x1p-23f, -(1 + 0x1p-22f)) == bits_of_f32(0x1p-46f));
    CHECK(fma_of(0x1p100f, 0x1p100f, -inf) == 0xFF800000);
    CHECK(fma_of(0x1p100f, 0x1p100f, 0) == 0x7F800000);
    CHECK(fma_of(0x1p-80f, 0x1p-60f, 0) == bits_of_f32(0x1p-140f));
    CHECK(fma_of(-1, 0, -0.0f) == 0x80000000);
    CHECK(fma_of(1, 0, -0.0f) == 0);
    CHECK(fma_of(inf, 0, 1) == nan_bits);
    CHECK(fma_of(inf, 1, -inf) == nan_bits);
    CHECK(fma_of(std::nanf(""), 1, 1) == nan_bits);
}

TEST_CASE("a bounded division gives the quotient of a plain one where it is allowed", "[host]") {
    const std::vector<std::pair<float, float>> pairs = {{1, 3},
                                                        {-1, 3},
                                                        {0, 5},
                                                        {-0.0f, 5},
                                                        {448, 0.0012f},
                                                        {0x1p-100f, 1},
                                                        {0x1p100f, 1},
                                                        {1, 0x1p100f},
                                                        {1, 0x1p-100f},
                                                        {-7, 0x1.8p50f},
                                                        {0, 0x1p-100f},
                                                        {0x1p-50f, 0x1p50f},
                                                        {0x1p50f, 0x1p-50f},
                                                        {0x1p-149f, 2},
                                                        {-0x3p-149f, 2},
                                                        {0x1.fffffep-101f, 1},
                                                        {0x1.fffffep127f, 1},
                                                        {-0x1.fffffep127f, 2},
                                                        {-0x1.fffffep127f, 0x1.fffffep63f}};
    std::vector<float> x(32, 2.0f), d(32, 3.0f), y(32);
    for (std::size_t i = 0; i < pairs.size(); ++i) std::tie(x[i], d[i]) = pairs[i];
    const Division division;
    CHECK(error_of<UsageError>(division.b.executable(), {{x.data(), d.data(), y.data()}, {}}).empty());
    for (std::size_t i = 0; i < 32; ++i) CHECK(bits_of_f32(y[i]) == bits_of_f32(x[i] / d[i]));
    CHECK(bits_of_f32(y[3]) == 0x80000000);
    CHECK(bits_of_f32(y[0]) == 0x3EAAAAAB);
}

TEST_CASE("NaN passes through a bounded division, and infinities become NaN", "[host]") {
    const float nan = std::nanf("");
    std::vector<float> x(32, nan), d(32, 3.0f), y(32);
    x[1] = 1, d[1] = nan;
    x[2] = nan, d[2] = 0;
    x[3] = std::numeric_limits<float>::infinity(), d[3] = 1;
    x[4] = -std::numeric_limits<float>::infinity();
    CHECK_NOTHROW(Division().b.executable().run({{x.data(), d.data(), y.data()}, {}}));
    for (float v : y) CHECK(bits_of_f32(v) == nan_bits);
}

TEST_CASE("a bounded division outside of its range is the caller's, with the line, when checked", "[host]") {
    const Division division;
    const std::string text = division.error(0x1p101f, 0.5f, 5);
    CHECK_THAT(text, Contains("arithmetic_test.cpp:" + std::to_string(division.line) + ": kernel 'divide'"));
    CHECK_THAT(text, Contains("the bounded division of 2.5353e+30 by 0.5 leaves its range"));
    CHECK_THAT(text, Contains("block [0] of [1], thread 5") && Contains("write a plain division"));
    const float inf = std::numeric_limits<float>::infinity();
    const std::vector<std::pair<float, float>> pairs = {{-0x1p101f, 0.5f},
                                                        {std::nextafter(0x1p100f, inf), 0x1.fffffep-1f},
                                                        {0x1.fffffep-101f, 3},
                                                        {1, 0},
                                                        {1, -2},
                                                        {1, 0x1p101f},
                                                        {1, 0x1.fffffep-101f},
                                                        {0x1p60f, 0x1p-60f},
                                                        {0, 0},
                                                        {0, -1},
                                                        {1, inf},
                                                        {0x1p-60f, 0x1p60f},
                                                        {0, 0x1p-101f},
                                                        {1, -0.0f}};
    for (const auto& [a, d] : pairs) {
        INFO(a << " / " << d);
        CHECK_THAT(division.error(a, d, 31), Contains("thread 31"));
        CHECK(Division(BinaryOp::div).error(a, d, 31).empty());
    }
    std::vector<float> x(32, 1.0f), d(32, 0.0f), y(32);
    CHECK_NOTHROW(division.b.executable().run({{x.data(), d.data(), y.data()}, {}}, {.check = false, .workers = 1}));
}

TEST_CASE("a bounded division of constants and of packed words is checked too", "[host]") {
    Builder b("folded", 32);
    const int y = b.vector_tensor("y", f32, b.i64c(32));
    b.grid({b.i64c(1)});
    b.store(global(y, b.thread64()), {b.op(BinaryOp::div_bounded, b.f32c(1), b.f32c(-3))});
    std::vector<float> out(32);
    CHECK_THAT(error_of<UsageError>(b.executable(), {{out.data()}, {}}),
               Contains("of 1 by -3") && Contains("thread 0"));

    Builder w("by_thread", 32);
    const int z = w.vector_tensor("z", f32, w.i64c(32));
    w.grid({w.i64c(1)});
    const Ref divisor = w.op(BinaryOp::sub, w.f32c(20), w.cast(f32, w.thread()));
    w.store(global(z, w.thread64()), {w.op(BinaryOp::div_bounded, w.f32c(1), divisor)});
    CHECK_THAT(error_of<UsageError>(w.executable(), {{out.data()}, {}}),
               Contains("of 1 by 0") && Contains("thread 20"));
}

TEST_CASE("the new operations have no meaning for other element types", "[host]") {
    const auto refused = [](auto&& make) {
        Builder b("refused", 32);
        const int y = b.vector_tensor("y", f64, b.i64c(32));
        b.grid({b.i64c(1)});
        b.store(global(y, b.thread64()), {make(b)});
        std::vector<double> out(32);
        return !error_of<InternalError>(b.executable(), {{out.data()}, {}}).empty();
    };
    const auto one = [](Builder& b) { return b.constant(f64, std::bit_cast<std::uint64_t>(1.0)); };
    CHECK(refused([&](Builder& b) { return b.unary(UnaryOp::exp, one(b)); }));
    CHECK(refused([&](Builder& b) { return b.op(BinaryOp::div_bounded, one(b), one(b)); }));
    CHECK(refused([&](Builder& b) { return b.fma(one(b), one(b), one(b)); }));
    CHECK_FALSE(refused([&](Builder& b) { return b.op(BinaryOp::div, one(b), one(b)); }));
}

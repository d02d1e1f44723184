#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "dsl/base/convert.hpp"

// e2m1 and e5m6. The expected codes come from the thresholds and definitions of the formats, in f64.

using namespace tessera;
using std::uint32_t;
using std::uint64_t;

namespace {

constexpr double e2m1_values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

uint64_t e2m1_by_thresholds(double x) {
    if (std::isnan(x)) return 7;
    const double a = std::fabs(x);
    const int code = (a > 0.25) + (a >= 0.75) + (a > 1.25) + (a >= 1.75) + (a > 2.5) + (a >= 3.5) + (a > 5);
    return static_cast<uint64_t>(code) | (std::signbit(x) ? 8 : 0);
}

/// The nearest value, by trying all; of two the one with the even code.
uint64_t e2m1_by_distance(double x) {
    if (std::isnan(x)) return 7;
    uint64_t best = 0;
    const double a = std::fmin(std::fabs(x), 6);
    for (uint64_t code = 1; code < 8; ++code) {
        const double distance = std::fabs(a - e2m1_values[code]), least = std::fabs(a - e2m1_values[best]);
        if (distance < least || (distance == least && code % 2 == 0)) best = code;
    }
    return best | (std::signbit(x) ? 8 : 0);
}

/// Code of the f16 next to the finite x toward zero.
uint32_t f16_toward_zero(double x) {
    const double a = std::fabs(x);
    const uint32_t sign = std::signbit(x) ? 0x8000 : 0;
    if (a >= 65504) return sign | 0x7BFF;
    const int exponent = a < 0x1p-14 ? -14 : std::ilogb(a);
    const auto units = static_cast<uint32_t>(std::floor(std::ldexp(a, 10 - exponent)));  // of 2^(exponent − 10)
    return sign | (static_cast<uint32_t>(exponent + 14) * 1024 + units);
}

uint64_t e5m6_by_rule(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x);
    const uint32_t h = std::isnan(x)   ? 0x7FFF
                       : std::isinf(x) ? (std::signbit(x) ? 0xFC00 : 0x7C00)
                                       : f16_toward_zero(static_cast<double>(x));
    const uint32_t c = h >> 4;
    return (c & 1) + (b & 0x1FFFF) > 0x10000 ? c + 1 : c;
}

double e5m6_value(uint64_t code) {  // of a finite, non-negative code
    const int exponent = static_cast<int>(code >> 6);
    const auto mantissa = static_cast<double>(code & 0x3F);
    return exponent == 0 ? std::ldexp(mantissa, -20) : std::ldexp(64 + mantissa, exponent - 21);
}

float below(float x) { return std::nextafterf(x, -INFINITY); }
float above(float x) { return std::nextafterf(x, INFINITY); }
float f32_of(uint32_t bits) { return std::bit_cast<float>(bits); }
uint64_t e2m1_of(double x) { return encode_float(Element::e2m1, static_cast<float>(x)); }
uint64_t e5m6_of(double x) { return encode_float(Element::e5m6, static_cast<float>(x)); }

}  // namespace

TEST_CASE("every e2m1 code decodes to its value, in every wider float", "[convert]") {
    constexpr uint64_t e4m3_codes[8] = {0x00, 0x30, 0x38, 0x3C, 0x40, 0x44, 0x48, 0x4C};
    for (uint64_t code = 0; code < 8; ++code) {
        const float value = decode_float(Element::e2m1, code), negative = decode_float(Element::e2m1, code | 8);
        CHECK(static_cast<double>(value) == e2m1_values[code]);
        CHECK(std::bit_cast<uint32_t>(negative) == (std::bit_cast<uint32_t>(value) | 0x80000000u));
        const uint64_t bf16_code = std::bit_cast<uint32_t>(static_cast<float>(e2m1_values[code])) >> 16;
        CHECK(convert_bits(Element::e2m1, Element::bf16, code | 8) == (bf16_code | 0x8000));
        CHECK(convert_bits(Element::e2m1, Element::e4m3, code) == e4m3_codes[code]);
        CHECK(convert_bits(Element::e2m1, Element::e4m3, code | 8) == (e4m3_codes[code] | 0x80));
        CHECK(convert::e4m3_from_e2m1(static_cast<uint32_t>(code)) == e4m3_codes[code]);
        CHECK(convert::e4m3_from_e2m1(static_cast<uint32_t>(code | 8)) == (e4m3_codes[code] | 0x80));
        CHECK(convert_bits(Element::e2m1, Element::f64, code) == std::bit_cast<uint64_t>(e2m1_values[code]));
        CHECK(convert_bits(Element::e2m1, Element::i32, code) == static_cast<uint64_t>(e2m1_values[code]));
        CHECK(convert_bits(Element::e2m1, Element::e2m1, code | 8) == (code | 8));
    }
}

TEST_CASE("e2m1 encodes by the thresholds of its definition", "[convert]") {
    int wrong = 0;
    const auto check = [&](float x) {
        const auto wide = static_cast<double>(x);
        wrong += encode_float(Element::e2m1, x) != e2m1_by_thresholds(wide);
        wrong += encode_float(Element::e2m1, x) != e2m1_by_distance(wide);
    };
    SECTION("all bf16 and all f16 values") {
        for (uint32_t code = 0; code < 0x10000; ++code) {
            const float x = f32_of(code << 16);
            check(x);
            wrong += convert_bits(Element::bf16, Element::e2m1, code) != e2m1_by_thresholds(static_cast<double>(x));
            check(decode_float(Element::f16, code));
        }
    }
    SECTION("midpoints, values and their neighbours") {
        for (int i = 0; i < 7; ++i) {
            const auto middle = static_cast<float>((e2m1_values[i] + e2m1_values[i + 1]) / 2);
            for (float x : {middle, static_cast<float>(e2m1_values[i + 1])})
                for (float y : {below(x), x, above(x)}) check(y), check(-y);
        }
    }
    SECTION("random f32 patterns, over all exponents and close to the range") {
        std::mt19937 random(20240601);
        for (int i = 0; i < 4'000'000; ++i) {
            const auto bits = static_cast<uint32_t>(random());
            check(f32_of(bits));
            check(f32_of((bits & 0x81FFFFFF) + 0x3E000000));  // 2^-3 … 2
        }
    }
    CHECK(wrong == 0);
}

TEST_CASE("the specification's examples of e2m1", "[convert]") {
    CHECK(e2m1_of(0.25) == 0);
    CHECK(e2m1_of(0.75) == 2);
    CHECK(e2m1_of(1.25) == 2);
    CHECK(e2m1_of(1.75) == 4);
    CHECK(e2m1_of(2.5) == 4);
    CHECK(e2m1_of(3.5) == 6);
    CHECK(e2m1_of(5) == 6);
    CHECK(e2m1_of(5.000001) == 7);
    CHECK(e2m1_of(-0.1) == 8);
    CHECK(e2m1_of(-0.3) == 9);
    CHECK(e2m1_of(-0.0) == 8);
    CHECK(e2m1_of(INFINITY) == 7);
    CHECK(e2m1_of(-INFINITY) == 15);
    CHECK(encode_float(Element::e2m1, f32_of(0x7FC00000)) == 7);
    CHECK(encode_float(Element::e2m1, f32_of(0xFFFFFFFF)) == 7);
}

TEST_CASE("wide sources round to e2m1 once", "[convert]") {
    const auto from_f64 = [](double x) {
        return convert_bits(Element::f64, Element::e2m1, std::bit_cast<uint64_t>(x));
    };
    for (double middle : {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0})
        for (double x : {middle, middle * (1 + 0x1p-50), middle * (1 - 0x1p-50)}) {
            CHECK(from_f64(x) == e2m1_by_thresholds(x));
            CHECK(from_f64(-x) == e2m1_by_thresholds(-x));
        }
    for (int i = -20; i <= 20; ++i)
        CHECK(convert_bits(Element::i32, Element::e2m1, static_cast<uint32_t>(i)) == e2m1_by_thresholds(i));
    CHECK(convert_bits(Element::f64, Element::e2m1, std::bit_cast<uint64_t>(std::nan(""))) == 7);
}

TEST_CASE("every e5m6 code decodes to its value and encodes back", "[convert]") {
    int wrong = 0;
    for (uint64_t code = 0; code < 0x7C0; ++code) {
        const float value = decode_float(Element::e5m6, code), negative = decode_float(Element::e5m6, code | 0x800);
        wrong += static_cast<double>(value) != e5m6_value(code);
        wrong += std::bit_cast<uint32_t>(negative) != (std::bit_cast<uint32_t>(value) | 0x80000000u);
        wrong += encode_float(Element::e5m6, value) != code;
        wrong += encode_float(Element::e5m6, negative) != (code | 0x800);
    }
    CHECK(wrong == 0);
    CHECK(decode_float(Element::e5m6, 0x7C0) == INFINITY);
    CHECK(decode_float(Element::e5m6, 0xFC0) == -INFINITY);
    for (uint64_t code = 0x7C1; code < 0x800; ++code) {
        CHECK(std::isnan(decode_float(Element::e5m6, code)));
        CHECK(std::isnan(decode_float(Element::e5m6, code | 0x800)));
    }
}

TEST_CASE("normal e5m6 values round to nearest, ties to even", "[convert]") {
    int wrong = 0;
    const auto expect = [&](float x, uint64_t code) {
        wrong += encode_float(Element::e5m6, x) != code;
        wrong += encode_float(Element::e5m6, -x) != (code | 0x800);
    };
    for (uint64_t low = 0x040; low < 0x7BF; ++low) {
        const auto middle = static_cast<float>((e5m6_value(low) + e5m6_value(low + 1)) / 2);
        expect(middle, low % 2 == 0 ? low : low + 1);
        expect(below(middle), low);
        expect(above(middle), low + 1);
        expect(above(static_cast<float>(e5m6_value(low))), low);
        expect(below(static_cast<float>(e5m6_value(low + 1))), low + 1);
    }
    CHECK(wrong == 0);
}

TEST_CASE("e5m6 keeps the quirk of its inventors", "[convert]") {
    CHECK(e5m6_of(1) == 0x3C0);
    CHECK(e5m6_of(65024) == 0x7BF);
    CHECK(encode_float(Element::e5m6, above(65024.0f)) == 0x7BF);
    CHECK(e5m6_of(-2) == 0xC00);
    CHECK(e5m6_of(1 + 1.0 / 128) == 0x3C0);
    CHECK(e5m6_of(1 + 3.0 / 128) == 0x3C2);
    CHECK(e5m6_of(0x1p-20) == 0x001);
    CHECK(e5m6_of(63 * 0x1p-20) == 0x03F);
    CHECK(e5m6_of(0x1p-14) == 0x040);
    CHECK(e5m6_of(0x1p-21) == 0x000);
    CHECK(e5m6_of(1.5 * 0x1p-20) == 0x001);
    CHECK(e5m6_of(3 * 0x1p-20) == 0x003);
    CHECK(encode_float(Element::e5m6, f32_of(0x30818001)) == 0x001);
    CHECK(encode_float(Element::e5m6, f32_of(0x30810000)) == 0x000);
    CHECK(e5m6_of(-0.0) == 0x800);
    CHECK(e5m6_of(INFINITY) == 0x7C0);
    CHECK(e5m6_of(-INFINITY) == 0xFC0);
    CHECK(encode_float(Element::e5m6, f32_of(0x7FC00000)) == 0x7FF);
    CHECK(encode_float(Element::e5m6, f32_of(0x7FFFFFFF)) == 0x800);
    CHECK(convert_bits(Element::f64, Element::e5m6, std::bit_cast<uint64_t>(std::nan(""))) == 0x800);
}

TEST_CASE("e5m6 encodes by its rule on every kind of value", "[convert]") {
    int wrong = 0;
    const auto check = [&](float x) { wrong += encode_float(Element::e5m6, x) != e5m6_by_rule(x); };
    SECTION("all bf16 and all f16 values") {
        for (uint32_t code = 0; code < 0x10000; ++code) {
            check(f32_of(code << 16));
            check(decode_float(Element::f16, code));
            wrong += convert_bits(Element::bf16, Element::e5m6, code) != e5m6_by_rule(f32_of(code << 16));
        }
    }
    SECTION("midpoints of the subnormals and of the infinity, with their neighbours") {
        for (uint64_t code = 0; code < 0x40; ++code) {
            const auto middle = static_cast<float>((e5m6_value(code) + e5m6_value(code + 1)) / 2);
            for (float x : {below(middle), middle, above(middle)}) check(x), check(-x);
        }
        for (float x : {65024.0f, 65280.0f, 65504.0f, 65520.0f, 65536.0f, 1e30f})
            for (float y : {below(x), x, above(x)}) check(y), check(-y);
    }
    SECTION("random f32 patterns, over all exponents and among the subnormals") {
        std::mt19937 random(20240602);
        for (int i = 0; i < 4'000'000; ++i) {
            const auto bits = static_cast<uint32_t>(random());
            check(f32_of(bits));
            check(f32_of((bits & 0x87FFFFFF) + 0x34000000));  // 2^-23 … 2^-8
        }
    }
    CHECK(wrong == 0);
}

#include "dsl/base/convert.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "dsl/base/error.hpp"

using namespace tessera;

namespace {

// The formats as their definitions write them, decoded with ldexp; nothing here knows the code under test.
struct Format {
    Element element;
    int exponent_bits, mantissa_bits, bias;
    bool has_infinity;  // the all-ones exponent is infinity and NaN; else (e4m3) only the all-ones code is NaN
    bool saturates;     // overflow gives the largest finite value
    std::uint64_t nan_code;

    int width() const { return 1 + exponent_bits + mantissa_bits; }
    std::uint64_t sign() const { return std::uint64_t{1} << (width() - 1); }
    double value(std::uint64_t code) const {  // of a non-negative code
        const int exponent = static_cast<int>(code >> mantissa_bits);
        const auto mantissa = static_cast<double>(code & ((1u << mantissa_bits) - 1));
        const int all_ones = (1 << exponent_bits) - 1;
        if (has_infinity && exponent == all_ones) return mantissa == 0 ? HUGE_VAL : std::nan("");
        if (!has_infinity && code == sign() - 1) return std::nan("");
        if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
        return std::ldexp(1.0 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
    }
    std::uint64_t largest() const {  // code of the largest finite value
        return has_infinity ? (((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits) - 1 : sign() - 2;
    }
};

const Format formats[] = {
    {Element::e4m3, 4, 3, 7, false, true, 0x7F},
    {Element::e5m2, 5, 2, 15, true, true, 0x7F},
    {Element::f16, 5, 10, 15, true, false, 0x7FFF},
    {Element::bf16, 8, 7, 127, true, false, 0x7FFF},
};

bool same_value(double expected, float got) {
    if (std::isnan(expected)) return std::isnan(got);
    return expected == static_cast<double>(got) && std::signbit(expected) == std::signbit(got);
}

float from_bits(std::uint32_t b) {
    float x;
    std::memcpy(&x, &b, 4);
    return x;
}

}  // namespace

TEST_CASE("every code of a small format decodes to its definition", "[convert]") {
    for (const Format& f : formats) {
        int wrong = 0;
        for (std::uint64_t code = 0; code < f.sign(); ++code) {
            wrong += !same_value(f.value(code), decode_float(f.element, code));
            wrong += !same_value(-f.value(code), decode_float(f.element, code | f.sign()));
        }
        INFO(name_of(f.element));
        CHECK(wrong == 0);
    }
}

TEST_CASE("a value encodes to the nearest code, ties to the even one", "[convert]") {
    for (const Format& f : formats) {
        int wrong = 0;
        const auto expect = [&](float x, std::uint64_t code) {
            wrong += encode_float(f.element, x) != code;
            wrong += encode_float(f.element, -x) != (code | f.sign());
        };
        for (std::uint64_t low = 0; low < f.largest(); ++low) {
            const auto middle = static_cast<float>((f.value(low) + f.value(low + 1)) / 2);
            REQUIRE(static_cast<double>(middle) == (f.value(low) + f.value(low + 1)) / 2);
            expect(static_cast<float>(f.value(low)), low);
            expect(middle, low % 2 == 0 ? low : low + 1);
            expect(std::nextafterf(middle, 0.0f), low);
            expect(std::nextafterf(middle, INFINITY), low + 1);
        }
        INFO(name_of(f.element));
        CHECK(wrong == 0);
    }
}

TEST_CASE("overflow, infinity and NaN follow the format's rule", "[convert]") {
    for (const Format& f : formats) {
        INFO(name_of(f.element));
        const double top = f.value(f.largest());
        const double step = top - f.value(f.largest() - 1);
        const auto tie = static_cast<float>(top + step / 2);
        const std::uint64_t past = f.saturates ? f.largest() : f.largest() + 1;
        CHECK(encode_float(f.element, std::nextafterf(tie, 0.0f)) == f.largest());
        for (float x : {tie, std::nextafterf(tie, INFINITY), std::numeric_limits<float>::max(), INFINITY}) {
            CHECK(encode_float(f.element, x) == past);
            CHECK(encode_float(f.element, -x) == (past | f.sign()));
        }
        for (std::uint32_t nan : {0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0xFFFFFFFFu})
            CHECK(encode_float(f.element, from_bits(nan)) == f.nan_code);
    }
}

TEST_CASE("the specification's examples of e4m3", "[convert]") {
    const auto e4m3_of = [](double x) { return encode_float(Element::e4m3, static_cast<float>(x)); };
    CHECK(e4m3_of(464) == 0x7E);
    CHECK(e4m3_of(std::ldexp(1.0, -10)) == 0x00);
    CHECK(e4m3_of(std::ldexp(1.5, -10)) == 0x01);
    CHECK(e4m3_of(17) == 0x58);
    CHECK(e4m3_of(19) == 0x5A);
    CHECK(e4m3_of(-0.3) == 0xAA);
    CHECK(e4m3_of(240.1) == 0x77);
    CHECK(e4m3_of(-0.0) == 0x80);
}

TEST_CASE("ue8m0 is the exponent field", "[convert]") {
    CHECK(decode_float(Element::ue8m0, 0) == 0.0f);
    CHECK(decode_float(Element::ue8m0, 255) == INFINITY);
    for (int e = 1; e < 255; ++e) {
        CHECK(decode_float(Element::ue8m0, static_cast<std::uint64_t>(e)) == std::ldexp(1.0f, e - 127));
        CHECK(encode_float(Element::ue8m0, std::ldexp(1.9f, e - 127)) == static_cast<std::uint64_t>(e));
    }
}

TEST_CASE("conversion by value", "[convert]") {
    const auto f32_bits = [](float x) { return std::uint64_t{std::bit_cast<std::uint32_t>(x)}; };
    const auto from_f32 = [&](Element to, float x) { return convert_bits(Element::f32, to, f32_bits(x)); };
    SECTION("float to integer truncates and clamps") {
        CHECK(from_f32(Element::i32, -2.9f) == 0xFFFFFFFEu);
        CHECK(from_f32(Element::i64, -2.9f) == 0xFFFFFFFFFFFFFFFEu);
        CHECK(from_f32(Element::u32, -2.9f) == 0);
        CHECK(from_f32(Element::i32, 3e9f) == 0x7FFFFFFFu);
        CHECK(from_f32(Element::i32, -3e9f) == 0x80000000u);
        CHECK(from_f32(Element::u32, 4e9f) == 4000000000u);
        CHECK(from_f32(Element::u8, 255.9f) == 255);
        CHECK(from_f32(Element::i8, -1000.0f) == 0x80);
        CHECK(from_f32(Element::i32, std::nanf("")) == 0);
        CHECK(from_f32(Element::i64, std::nanf("")) == 0x8000000000000000u);
        CHECK(convert_bits(Element::bf16, Element::i32, 0x4049) == 3);
    }
    SECTION("integers wrap") {
        CHECK(convert_bits(Element::i64, Element::i32, 0x1FFFFFFFFu) == 0xFFFFFFFFu);
        CHECK(convert_bits(Element::i32, Element::i64, 0xFFFFFFFFu) == 0xFFFFFFFFFFFFFFFFu);
        CHECK(convert_bits(Element::u32, Element::i64, 0xFFFFFFFFu) == 0xFFFFFFFFu);
        CHECK(convert_bits(Element::i8, Element::u16, 0x80) == 0xFF80);
        CHECK(convert_bits(Element::u16, Element::i8, 0x1234) == 0x34);
    }
    SECTION("integer to float rounds once") {
        CHECK(convert_bits(Element::i32, Element::f32, 16777217) == f32_bits(16777216.0f));
        CHECK(convert_bits(Element::i32, Element::f32, 16777219) == f32_bits(16777220.0f));
        CHECK(convert_bits(Element::i64, Element::f32, 0xFFFFFFFFFFFFFFFFu) == f32_bits(-1.0f));
        // 2^24 + 2^16 + 1 lies above the tie of two bf16 neighbours; through f32 it would round to the tie, then down.
        CHECK(convert_bits(Element::i32, Element::bf16, (1 << 24) + (1 << 16) + 1) == 0x4B81);
        CHECK(convert_bits(Element::i32, Element::bf16, (1 << 24) + (1 << 16)) == 0x4B80);
        CHECK(convert_bits(Element::u64, Element::f32, (std::uint64_t{1} << 63) + (std::uint64_t{1} << 39) + 1) ==
              0x5F000001);
        CHECK(convert_bits(Element::i32, Element::e4m3, 1000) == 0x7E);
    }
    SECTION("f64 to narrow rounds once") {
        const auto f64_bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
        CHECK(convert_bits(Element::f64, Element::bf16, f64_bits(1.00390625 + 1e-12)) == 0x3F81);
        CHECK(convert_bits(Element::f64, Element::bf16, f64_bits(1.00390625)) == 0x3F80);
        CHECK(convert_bits(Element::f64, Element::e4m3, f64_bits(17.0 + 1e-12)) == 0x59);
        CHECK(convert_bits(Element::f64, Element::f32, f64_bits(0.1)) == f32_bits(0.1f));
    }
    SECTION("boolean is 0 or 1") {
        CHECK(from_f32(Element::boolean, -0.0f) == 0);
        CHECK(from_f32(Element::boolean, 1e-45f) == 1);
        CHECK(convert_bits(Element::i64, Element::boolean, 0x100000000u) == 1);
        CHECK(convert_bits(Element::boolean, Element::f32, 1) == f32_bits(1.0f));
        CHECK(convert_bits(Element::boolean, Element::i64, 1) == 1);
    }
    SECTION("what has no host conversion says so") { CHECK_THROWS_AS(decode_float(Element::i32, 0), InternalError); }
}

TEST_CASE("tf32 keeps 10 bits, ties away from 0") {
    const auto rounded = [](std::uint32_t bits) {
        return static_cast<std::uint32_t>(encode_float(Element::tf32, std::bit_cast<float>(bits)));
    };
    std::size_t wrong = 0;
    for (std::uint32_t code = 0; code < 0x7F800000u; code += 0x2000u)  // every finite code, and up to the next one
        for (const std::uint32_t sign : {0u, 0x80000000u}) {
            const std::uint32_t below = sign | code, above = sign | (code + 0x2000u);
            wrong += rounded(below) != below;
            wrong += rounded(below + 0xFFFu) != below;
            wrong += rounded(below + 0x1000u) != above;
            wrong += rounded(below + 0x1FFFu) != above;
        }
    CHECK(wrong == 0);
    CHECK(rounded(0x7F800000u) == 0x7F800000u);
    CHECK(rounded(0xFF800000u) == 0xFF800000u);
    for (const std::uint32_t nan : {0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u}) CHECK(rounded(nan) == 0x7FFFFFFFu);
    CHECK(decode_float(Element::tf32, 0x3FC00000u) == 1.5f);
    // An f64 just past a tie, which f32 cannot tell from it.
    CHECK(convert_bits(Element::f64, Element::tf32, std::bit_cast<std::uint64_t>(1.0 - 0x1p-12 - 0x1p-40)) ==
          0x3F7FE000u);
}

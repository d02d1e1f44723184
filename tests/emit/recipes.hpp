#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// The device functions for packed formats, transcribed to C++ line by line, over models of the instructions that they
// use. What the emitted text says must be said here too.

namespace tessera::test::device {

using u32 = std::uint32_t;

// ---- instructions

inline u32 float_as_uint(float x) { return std::bit_cast<u32>(x); }
inline float uint_as_float(u32 x) { return std::bit_cast<float>(x); }

/// prmt.b32: bit 3 of a selector digit copies the byte's sign eight times.
inline u32 prmt(u32 a, u32 b, u32 selector) {
    const std::uint64_t both = a | static_cast<std::uint64_t>(b) << 32;
    u32 r = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 digit = selector >> (4 * i) & 0xf;
        const u32 byte = static_cast<u32>(both >> (8 * (digit & 7))) & 0xff;
        r |= ((digit & 8) == 0 ? byte : byte >= 0x80 ? 0xffu : 0u) << (8 * i);
    }
    return r;
}
inline u32 funnel_left(u32 low, u32 high, int n) { return high << n | low >> (32 - n); }
inline u32 funnel_right(u32 low, u32 high, int n) { return low >> n | high << (32 - n); }
inline u32 arithmetic_shift(u32 x, int n) { return static_cast<u32>(static_cast<std::int32_t>(x) >> n); }

/// The device's: any NaN is dropped (C++'s std::fmin keeps signalling ones).
inline float fminf(float a, float b) { return std::isnan(a) ? b : std::fmin(a, b); }

/// max.xorsign.abs of numbers.
template <class T>
T larger_magnitude(T a, T b) {
    const T larger = std::fmax(std::fabs(a), std::fabs(b));
    return std::signbit(a) != std::signbit(b) ? -larger : larger;
}

inline double real_of_bf16(u32 code) { return static_cast<double>(uint_as_float(code << 16)); }
inline double real_of_f16(u32 code) {
    const int exponent = static_cast<int>(code >> 10 & 31);
    const double mantissa = code & 0x3ff;
    const double x = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
    return (code & 0x8000) != 0 ? -x : x;
}
/// A finite number rounded to `bits` significant ones, ties to even, as bf16 or f16 by `code_of`; no subnormal results.
inline double rounded(double x, int bits) {
    if (x == 0) return x;
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}
inline u32 bf16_of(double x) { return float_as_uint(static_cast<float>(rounded(x, 8))) >> 16; }
inline u32 f16_of(double x) {
    const u32 sign = std::signbit(x) ? 0x8000u : 0u;
    if (x == 0) return sign;
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(rounded(x, 11)), &exponent);
    return sign | ((static_cast<u32>(exponent + 14) << 10) + (static_cast<u32>(std::ldexp(fraction, 11)) - 1024));
}
/// An operation on both halves of words.
template <class Fn>
u32 halves(Fn&& fn, u32 a, u32 b = 0, u32 c = 0) {
    return (fn(a & 0xffff, b & 0xffff, c & 0xffff) & 0xffffu) | fn(a >> 16, b >> 16, c >> 16) << 16;
}
inline u32 clamp_bf16(u32 x) {  // to ±6; NaN gives 6
    const double v = real_of_bf16(x);
    return std::isnan(v) || v > 6 ? 0x40c0u : v < -6 ? 0xc0c0u : x;
}
/// cvt.rz.f16.f32
inline u32 f16_toward_zero(float x) {
    const u32 sign = float_as_uint(x) >> 16 & 0x8000u;
    const double v = std::fabs(static_cast<double>(x));
    if (std::isnan(x)) return 0x7fff;
    if (std::isinf(x)) return sign | 0x7c00;
    if (v >= 65504) return sign | 0x7bff;
    if (v < 0x1p-14) return sign | static_cast<u32>(v * 0x1p24);
    int exponent = 0;
    const double fraction = std::frexp(v, &exponent);
    return sign | ((static_cast<u32>(exponent + 14) << 10) + (static_cast<u32>(std::ldexp(fraction, 11)) - 1024));
}

// ---- e2m1

/// What is done to values before they become codes: a clamp to ±6, or to 6 from above alone; NaN gives 6.
enum class Clamp { both, above };

inline u32 e2m1_top_from_f32(float y, Clamp clamp = Clamp::both) {
    const float z = clamp == Clamp::above ? fminf(y, 6.0f) : std::fmax(fminf(y, 6.0f), -6.0f);
    const float e = larger_magnitude(uint_as_float(float_as_uint(z) & 0xff800000u), 1.0f);
    const u32 r = float_as_uint(std::fma(e, 4194307.0f, z));
    return r * 0x10000040u + (r & 0x80000000u);
}
inline u32 e2m1_from_f32(const float* values, int count, Clamp clamp = Clamp::both) {
    u32 r = e2m1_top_from_f32(values[count - 1], clamp) >> 28;
    for (int i = count - 2; i >= 0; --i) r = funnel_left(e2m1_top_from_f32(values[i], clamp), r, 4);
    return r;
}

inline u32 e2m1_top_from_bf16x2(u32 y, Clamp clamp = Clamp::both) {
    const auto least = [=](u32 a, u32, u32) {
        return clamp == Clamp::above && real_of_bf16(a) < -6 ? a : clamp_bf16(a);
    };
    const u32 z = halves(least, y);
    const u32 e =
        halves([](u32 a, u32, u32) { return bf16_of(larger_magnitude(real_of_bf16(a), 1.0)); }, z & 0xff80ff80u);
    const u32 r =
        halves([](u32 a, u32 b, u32 c) { return bf16_of(real_of_bf16(a) * real_of_bf16(b) + real_of_bf16(c)); }, e,
               0x42864286u, z);
    return r * 4160u + (r & 0x80008000u);
}
inline u32 clamp_f16(u32 x) {  // to ±6; NaN gives 6
    if ((x & 0x7fff) > 0x7c00) return 0x4600u;
    if ((x & 0x7fff) > 0x4600) return 0x4600u | (x & 0x8000);
    return x;
}
inline u32 e2m1_top_from_f16x2(u32 y, Clamp clamp = Clamp::both) {
    const auto least = [=](u32 a, u32, u32) {
        return clamp == Clamp::above && a > 0xc600 && a <= 0xfc00 ? a : clamp_f16(a);
    };
    const u32 z = halves(least, y);
    const u32 e =
        halves([](u32 a, u32, u32) { return f16_of(larger_magnitude(real_of_f16(a), 1.0)); }, z & 0xfc00fc00u);
    const u32 r = halves([](u32 a, u32 b, u32 c) { return f16_of(real_of_f16(a) * real_of_f16(b) + real_of_f16(c)); },
                         e, 0x60006000u, z);
    return r * 4104u + (r & 0x80008000u);
}
inline u32 e2m1x2_from_f16(u32 a, Clamp clamp = Clamp::both) {
    const u32 r = e2m1_top_from_f16x2(a, clamp);
    return (r >> 12 & 0x0fu) | (r >> 24 & 0xf0u);
}
inline u32 e2m1x8_from_f16(u32 a, u32 b, u32 c, u32 d) {
    const u32 r = prmt(e2m1_top_from_f16x2(a), e2m1_top_from_f16x2(b), 0x7351);
    const u32 s = prmt(e2m1_top_from_f16x2(c), e2m1_top_from_f16x2(d), 0x7351);
    return (prmt(r, s, 0x5410) >> 4 & 0x0f0f0f0fu) | (prmt(r, s, 0x7632) & 0xf0f0f0f0u);
}
inline u32 e2m1x2_from_bf16(u32 a, Clamp clamp = Clamp::both) {
    const u32 r = e2m1_top_from_bf16x2(a, clamp);
    return (r >> 12 & 0x0fu) | (r >> 24 & 0xf0u);
}
inline u32 e2m1x4_from_bf16(u32 a, u32 b) {
    const u32 r = prmt(e2m1_top_from_bf16x2(a), e2m1_top_from_bf16x2(b), 0x7351);
    return (r >> 4 & 0x0f0fu) | (r >> 16 & 0xf0f0u);
}
inline u32 e2m1x8_from_bf16(u32 a, u32 b, u32 c, u32 d) {
    const u32 r = prmt(e2m1_top_from_bf16x2(a), e2m1_top_from_bf16x2(b), 0x7351);
    const u32 s = prmt(e2m1_top_from_bf16x2(c), e2m1_top_from_bf16x2(d), 0x7351);
    return (prmt(r, s, 0x5410) >> 4 & 0x0f0f0f0fu) | (prmt(r, s, 0x7632) & 0xf0f0f0f0u);
}

inline u32 bf16x2_from_e2m1(u32 word, u32 pair) {
    const u32 spread = prmt(word << 4, word, 0x4800 + 0x1111 * pair);
    return halves([](u32 a, u32 b, u32) { return bf16_of(real_of_bf16(a) * real_of_bf16(b)); },
                  arithmetic_shift(spread, 6) & 0x81c081c0u, 0x7e807e80u);
}
inline u32 f16x2_from_e2m1(u32 word, u32 pair) {
    const u32 spread = prmt(word << 4, word, 0x4800 + 0x1111 * pair);
    return halves([](u32 a, u32 b, u32) { return f16_of(real_of_f16(a) * real_of_f16(b)); },
                  arithmetic_shift(spread, 3) & 0x8e008e00u, 0x74007400u);
}
inline float f32_from_e2m1(u32 word, int lane) {
    return uint_as_float(arithmetic_shift(word << (28 - 4 * lane), 6) & 0x81c00000u) * 0x1p126f;
}
inline u32 e4m3x4_from_e2m1(u32 word, u32 half) {
    const u32 magnitudes = prmt(0x3c383000u, 0x4c484440u, (word & 0x77777777u) >> (16 * half));
    const u32 signs = prmt(word << 4, word, 0x5140 + 0x2222 * half);
    return magnitudes | (signs & 0x80808080u);
}

// ---- tables

inline u32 u8_lookup(u32 code, u32 low, u32 high) { return prmt(low, high, code & 7u) & 0xffu; }
inline u32 u8x4_lookup(u32 codes, int half, u32 low, u32 high) {
    return prmt(low, high, (codes & 0x77777777u) >> (16 * half));
}
inline u32 e4m3_lookup(u32 code, u32 low, u32 high, u32 sign) {
    return u8_lookup(code, low, high) ^ ((code & sign) << 4);
}
inline u32 e4m3x4_lookup(u32 codes, int half, u32 low, u32 high, u32 signs) {
    const u32 tops = prmt(codes << 4, codes, 0x5140 + 0x2222 * static_cast<u32>(half));
    return u8x4_lookup(codes, half, low, high) ^ (tops & signs);
}
inline u32 e2m1_lookup(u32 code, u32 table, u32 sign) { return ((table >> (4 * (code & 7u))) ^ (code & sign)) & 0xfu; }
inline u32 e2m1x8_lookup(u32 codes, u32 table, u32 signs) {
    const u32 even = table & 0x0f0f0f0fu, odd = (table >> 4) & 0x0f0f0f0fu;
    const u32 low = prmt(even, odd, 0x5140), high = prmt(even, odd, 0x7362);
    const u32 magnitudes = codes & 0x77777777u;
    const u32 a = prmt(low, high, magnitudes) * 17u;
    const u32 b = prmt(low, high, magnitudes >> 16) * 17u;
    return prmt(a >> 4, b >> 4, 0x6420) ^ (codes & signs);
}

// ---- e5m6

inline u32 e5m6_from_f32(float x) {
    const u32 code = f16_toward_zero(x) >> 4;
    return code + (((code & 1u) + (float_as_uint(x) & 0x1ffffu) + 0xffffu) >> 17);
}
inline u32 e5m6x2_from_f32(float low, float high) {
    const u32 halves = f16_toward_zero(low) | f16_toward_zero(high) << 16;
    const u32 first = (halves >> 4 & 1u) + (float_as_uint(low) & 0x1ffffu) + 0xffffu;
    const u32 second = (halves >> 20 & 1u) + (float_as_uint(high) & 0x1ffffu) + 0xffffu;
    return (halves >> 4 & 0x0fff0fffu) + (first >> 17) + (second >> 1 & 0x10000u);
}
inline void split_e5m6x8(u32* codes, const u32* words) {
    const u32 x = words[0], y = words[1], z = words[2];
    codes[0] = (x >> 20) | (x << 8 & 0x0fff0000u);
    codes[1] = prmt(funnel_right(y, x, 28), y, 0x7610) & 0x0fff0fffu;
    codes[2] = prmt(y >> 4, funnel_right(z, y, 8), 0x7610) & 0x0fff0fffu;
    codes[3] = prmt(z >> 12, z, 0x5410) & 0x0fff0fffu;
}
inline void join_e5m6x8(u32* words, const u32* codes) {
    const u32 a = codes[0], b = codes[1], c = codes[2], d = codes[3];
    words[0] = prmt((a << 20) + (a >> 8), b >> 4, 0x3214);
    words[1] = prmt((c << 4) + (c >> 24), (b << 28) + b, 0x7610);
    words[2] = prmt((d << 12) + (d >> 16), c, 0x6210);
}

// ---- division

/// With the reciprocal approximation `error` units in the last place away from the nearest.
inline float divide_bounded(float a, float b, int error) {
    float y = uint_as_float(float_as_uint(1.0f / b) + static_cast<u32>(error));
    y = std::fma(std::fma(-b, y, 1.0f), y, y);
    const float q = a * y;
    const float t = std::fma(q, b, -a);
    return std::fma(-t, y, q);
}

}  // namespace tessera::test::device

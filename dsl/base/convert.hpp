#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "dsl/base/element.hpp"

// Exact conversions between element types, as the device does them. The inline ones are free of branches so that a loop
// over them vectorises.
//   rounding    to nearest, ties to even, subnormals included
//   overflow    e4m3, e5m2 and e2m1 saturate to ±448, ±57344 and ±6 (infinities too); f16, bf16 and f32 go to infinity
//   NaN         becomes the format's 0x7F…F without a sign; e2m1 has none: +6
//   tf32        is an f32 whose low 13 bits are 0; rounds to nearest, ties away from 0
//   e5m6        is the top 12 bits of an f16, but rounds by a rule of its own: see to_e5m6
//   ue8m0       is the exponent field of an f32: 0 reads as 0.0 and 255 as +inf; writing drops sign and mantissa

namespace tessera {

/// The NaN that every f32 operation of the device gives.
inline constexpr std::uint32_t nan_f32 = 0x7FFFFFFF;

namespace convert {

using u32 = std::uint32_t;

inline u32 bits(float x) { return std::bit_cast<u32>(x); }
inline float real(u32 b) { return std::bit_cast<float>(b); }
inline bool is_nan(u32 b) { return static_cast<std::int32_t>(b & 0x7FFFFFFF) > 0x7F800000; }

/// yes ? a : b by masks: a conditional would let the compiler move float arithmetic into a branch.
inline u32 pick(bool yes, u32 a, u32 b) {
    const u32 mask = 0u - u32{yes};
    return (a & mask) | (b & ~mask);
}

inline float from_bf16(u32 b) { return real(b << 16); }
inline u32 to_bf16(float x) {
    const u32 b = bits(x);
    const u32 rounded = (b + 0x7FFF + ((b >> 16) & 1)) >> 16;
    return is_nan(b) ? 0x7FFF : rounded;
}

/// Rounds to a format of 1 + exponent + `Mantissa` bits; `Top` is the f32 magnitude that everything above is taken for.
template <int Mantissa, int Bias, u32 Top, u32 Nan>
u32 to_small(float x) {
    constexpr int shift = 23 - Mantissa;
    constexpr u32 least_normal = static_cast<u32>(128 - Bias) << 23;
    // In the binade of this number one unit in the last place is the format's smallest subnormal.
    constexpr u32 magic = static_cast<u32>(127 + 23 - Mantissa + 1 - Bias) << 23;
    const u32 b = bits(x);
    const auto all = static_cast<std::int32_t>(b & 0x7FFFFFFF);
    const u32 magnitude = static_cast<u32>(all < static_cast<std::int32_t>(Top) ? all : static_cast<std::int32_t>(Top));
    const u32 normal = ((magnitude + ((1u << (shift - 1)) - 1) + ((magnitude >> shift) & 1)) >> shift) -
                       (static_cast<u32>(127 - Bias) << Mantissa);
    const u32 subnormal = bits(real(magnitude) + real(magic)) - magic;
    const bool small = static_cast<std::int32_t>(magnitude) < static_cast<std::int32_t>(least_normal);
    const u32 code = pick(small, subnormal, normal);
    constexpr int sign_shift = Nan > 0xFF ? 16 : 24;
    return pick(is_nan(b), Nan, code | ((b >> sign_shift) & (Nan + 1)));
}

inline u32 to_f16(float x) { return to_small<10, 15, 0x47800000, 0x7FFF>(x); }
inline u32 to_e5m2(float x) { return to_small<2, 15, 0x47600000, 0x7F>(x); }
inline u32 to_e4m3(float x) { return to_small<3, 7, 0x43E00000, 0x7F>(x); }
inline u32 to_e2m1(float x) {
    const u32 b = bits(x);
    const auto magnitude = static_cast<std::int32_t>(b & 0x7FFFFFFF);
    // The middles of neighbouring magnitudes; one that rounds up to the even code counts itself.
    constexpr std::int32_t above[4] = {0x3E800000, 0x3FA00000, 0x40200000, 0x40A00000};  // 0.25, 1.25, 2.5, 5
    constexpr std::int32_t from[3] = {0x3F400000, 0x3FE00000, 0x40600000};               // 0.75, 1.75, 3.5
    const int code = (magnitude > above[0]) + (magnitude >= from[0]) + (magnitude > above[1]) + (magnitude >= from[1]) +
                     (magnitude > above[2]) + (magnitude >= from[2]) + (magnitude > above[3]);
    return static_cast<u32>(code) | (is_nan(b) ? 0 : (b >> 28) & 0x8);
}

inline float from_f16(u32 b) {
    const u32 magnitude = b & 0x7FFF;
    const u32 finite = bits(real(magnitude << 13) * 0x1p112f);
    const u32 special = magnitude > 0x7C00 ? nan_f32 : 0x7F800000;
    const u32 sign = magnitude > 0x7C00 ? 0 : (b & 0x8000) << 16;
    return real(sign | pick(magnitude < 0x7C00, finite, special));
}
inline float from_e5m2(u32 b) { return from_f16(b << 8); }
inline float from_e4m3(u32 b) {
    const u32 magnitude = b & 0x7F;
    const u32 finite = bits(real(magnitude << 20) * 0x1p120f) | ((b & 0x80) << 24);
    return real(pick(magnitude == 0x7F, nan_f32, finite));
}

inline float from_e2m1(u32 b) {
    const u32 magnitude = b & 0x7;
    const u32 normal = (magnitude << 22) + (126u << 23);
    const u32 subnormal = magnitude == 0 ? 0 : 126u << 23;
    return real((magnitude < 2 ? subnormal : normal) | (b & 0x8) << 28);
}

/// The same value as an e4m3 code.
inline u32 e4m3_from_e2m1(u32 b) {
    const u32 magnitude = b & 0x7;
    const u32 normal = 0x30 + (magnitude << 2);
    const u32 subnormal = magnitude == 0 ? 0 : 0x30;
    return (magnitude < 2 ? subnormal : normal) | (b & 0x8) << 4;
}

/// Rounds toward zero; finite values past the range give the largest finite one.
inline u32 truncate_to_f16(float x) {
    const u32 b = bits(x);
    const auto magnitude = static_cast<std::int32_t>(b & 0x7FFFFFFF);
    constexpr std::int32_t infinity = 0x7F800000, largest = 0x477FE000, least_normal = 0x38800000;
    const std::int32_t finite = magnitude < largest ? magnitude : largest;
    const auto normal = static_cast<u32>((finite >> 13) - (112 << 10));
    // One unit in the last place of 0.5 is the smallest subnormal; what the sum rounded up is taken back.
    const float small = real(static_cast<u32>(magnitude < least_normal ? magnitude : least_normal));
    const float sum = small + 0.5f;
    const u32 subnormal = bits(sum) - bits(0.5f) - u32{sum - 0.5f > small};
    const u32 code = pick(magnitude < infinity, pick(magnitude < least_normal, subnormal, normal), 0x7C00);
    return pick(magnitude > infinity, 0x7FFF, code | ((b >> 16) & 0x8000));
}

/// The quirk of the format's inventors, kept bit for bit: truncated to f16, then carried up by the low 17 bits of the
/// f32. From 2^-14 on that is rounding to nearest even; below, where these bits no longer line up with the cut, one
/// unit (2^-20) may be added for any value however small. Infinities keep their code (0x7C0); so may finite values past
/// 65024 get it. A NaN gives 0x7FF, or by the carry 0x800 (−0): the device's own NaN does.
inline u32 to_e5m6(float x) {
    const u32 code = truncate_to_f16(x) >> 4;
    const auto carry = static_cast<std::int32_t>((code & 1) + (bits(x) & 0x1FFFF));
    return code + (carry > 0x10000 ? 1 : 0);
}
inline float from_e5m6(u32 b) { return from_f16(b << 4); }

/// Ties go away from 0.
inline u32 to_tf32(float x) {
    const u32 b = bits(x);
    return is_nan(b) ? nan_f32 : (b + 0x1000) & ~0x1FFFu;
}
inline float from_tf32(u32 b) { return real(b); }

inline float from_ue8m0(u32 b) { return real(b << 23); }
inline u32 to_ue8m0(float x) { return (bits(x) >> 23) & 0xFF; }

}  // namespace convert

/// Value of a code of a float format (f64: rounded to f32). Errors: InternalError for integers.
float decode_float(Element from, std::uint64_t bits);

/// Code of a value, rounded by the rules above. Errors: as decode_float.
std::uint64_t encode_float(Element to, float value);

/// Converts by value, rounding once. Float to integer truncates, clamps to the target's range, and takes NaN to 0
/// (64-bit targets and f64 sources: to 1 followed by zeros). Integers wrap. To boolean: 1 unless zero. Errors: as
/// decode_float.
std::uint64_t convert_bits(Element from, Element to, std::uint64_t bits);

}  // namespace tessera

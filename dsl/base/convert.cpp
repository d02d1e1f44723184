#include "dsl/base/convert.hpp"

#include <limits>
#include <string>

#include "dsl/base/error.hpp"

namespace tessera {

namespace {

using std::int64_t;
using std::uint64_t;

[[noreturn]] void unsupported(Element e) {
    throw InternalError("no host conversion for the element type " + std::string(name_of(e)));
}

/// The f32 that truncation gives, with its last bit set if anything was lost: rounding it again to a narrower format
/// rounds the original.
float round_to_odd(double value) {
    const float nearest = static_cast<float>(value);
    if (static_cast<double>(nearest) == value || std::isinf(nearest)) return nearest;
    const uint32_t b = std::bit_cast<uint32_t>(nearest);
    const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
    return std::bit_cast<float>((away ? b - 1 : b) | 1);
}

/// The same for the 64-bit integer magnitude: a double whose last bit is set if anything was lost.
double integer_to_odd(uint64_t magnitude) {
    if (magnitude >> 53 == 0) return static_cast<double>(magnitude);
    const int drop = 64 - 53 - std::countl_zero(magnitude);
    const uint64_t kept = magnitude >> drop;
    const bool lost = (kept << drop) != magnitude;
    return std::ldexp(static_cast<double>(kept | (lost ? 1u : 0u)), drop);
}

template <class T>
uint64_t truncate_to(double value, bool nan_is_top_bit) {
    using Limits = std::numeric_limits<T>;
    if (value != value) return nan_is_top_bit ? uint64_t{1} << (sizeof(T) * 8 - 1) : 0;
    const double past = std::ldexp(1.0, Limits::digits);
    const double whole = std::trunc(value);
    T result;
    if (whole >= past) {
        result = Limits::max();
    } else if (whole <= static_cast<double>(Limits::min())) {
        result = Limits::min();
    } else {
        result = static_cast<T>(whole);
    }
    return static_cast<std::make_unsigned_t<T>>(result);
}

uint64_t real_to_integer(Element to, double value, bool wide_source) {
    const bool top = wide_source || bits_of(to) == 64;
    switch (to) {
        case Element::i8: return truncate_to<std::int8_t>(value, top);
        case Element::i16: return truncate_to<std::int16_t>(value, top);
        case Element::i32: return truncate_to<std::int32_t>(value, top);
        case Element::i64: return truncate_to<std::int64_t>(value, top);
        case Element::u8: return truncate_to<std::uint8_t>(value, top);
        case Element::u16: return truncate_to<std::uint16_t>(value, top);
        case Element::u32: return truncate_to<std::uint32_t>(value, top);
        case Element::u64: return truncate_to<std::uint64_t>(value, top);
        default: unsupported(to);
    }
}

uint64_t real_to_real(Element to, double value) {
    if (to == Element::f64) return std::bit_cast<uint64_t>(value);
    if (value != value) return encode_float(to, convert::real(nan_f32));
    if (to == Element::f32) return encode_float(to, static_cast<float>(value));
    return encode_float(to, round_to_odd(value));
}

uint64_t low_bits(uint64_t bits, int width) { return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1); }

int64_t sign_extended(uint64_t bits, int width) { return static_cast<int64_t>(bits << (64 - width)) >> (64 - width); }

uint64_t integer_to(Element to, Element from, uint64_t bits) {
    const bool negative = is_signed_integer(from) && sign_extended(bits, bits_of(from)) < 0;
    const uint64_t wide = is_signed_integer(from) ? static_cast<uint64_t>(sign_extended(bits, bits_of(from)))
                                                  : low_bits(bits, bits_of(from));
    if (is_integer(to)) return low_bits(wide, bits_of(to));
    if (to == Element::f64)
        return std::bit_cast<uint64_t>(negative ? static_cast<double>(static_cast<int64_t>(wide))
                                                : static_cast<double>(wide));
    const double magnitude = integer_to_odd(negative ? uint64_t{0} - wide : wide);
    return real_to_real(to, negative ? -magnitude : magnitude);
}

}  // namespace

float decode_float(Element from, uint64_t bits) {
    const auto b = static_cast<uint32_t>(bits);
    switch (from) {
        case Element::f64: return static_cast<float>(std::bit_cast<double>(bits));
        case Element::f32: return convert::real(b);
        case Element::tf32: return convert::from_tf32(b);
        case Element::f16: return convert::from_f16(b);
        case Element::bf16: return convert::from_bf16(b);
        case Element::e5m2: return convert::from_e5m2(b);
        case Element::e4m3: return convert::from_e4m3(b);
        case Element::e5m6: return convert::from_e5m6(b);
        case Element::e2m1: return convert::from_e2m1(b);
        case Element::ue8m0: return convert::from_ue8m0(b);
        default: unsupported(from);
    }
}

uint64_t encode_float(Element to, float value) {
    switch (to) {
        case Element::f64: return std::bit_cast<uint64_t>(static_cast<double>(value));
        case Element::f32: return value != value ? nan_f32 : convert::bits(value);
        case Element::tf32: return convert::to_tf32(value);
        case Element::f16: return convert::to_f16(value);
        case Element::bf16: return convert::to_bf16(value);
        case Element::e5m2: return convert::to_e5m2(value);
        case Element::e4m3: return convert::to_e4m3(value);
        case Element::e5m6: return convert::to_e5m6(value);
        case Element::e2m1: return convert::to_e2m1(value);
        case Element::ue8m0: return convert::to_ue8m0(value);
        default: unsupported(to);
    }
}

uint64_t convert_bits(Element from, Element to, uint64_t bits) {
    if (from == to) return low_bits(bits, bits_of(from));
    if (!is_float(from)) {
        if (from == Element::boolean) from = Element::u8;
        if (to == Element::boolean) return low_bits(bits, bits_of(from)) != 0;
        return integer_to(to, from, bits);
    }
    if (to == Element::f32 && from != Element::f64) return convert::bits(decode_float(from, bits));
    if (is_float(to) && from != Element::f64) return encode_float(to, decode_float(from, bits));
    const double value =
        from == Element::f64 ? std::bit_cast<double>(bits) : static_cast<double>(decode_float(from, bits));
    if (to == Element::boolean) return value != 0.0;
    if (is_float(to)) return real_to_real(to, value);
    return real_to_integer(to, value, from == Element::f64);
}

}  // namespace tessera

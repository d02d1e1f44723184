#include "dsl/emit/literal.hpp"

#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace tessera::emit {

namespace {

Text of_float(double value, bool single, const std::string& decimal, const std::string& hex) {
    const char* suffix = single ? "f" : "";
    const double exact = single ? 0x1p24 : 0x1p53;
    const Precedence precedence = std::signbit(value) ? Precedence::unary : Precedence::primary;
    if (std::trunc(value) == value && std::fabs(value) <= exact)
        return {fmt::format("{:.1f}{}", value, suffix), precedence, {}, {}, true};
    return {fmt::format("{}{} /* {} */", hex, suffix, decimal), precedence, {}, {}, true};
}

const char* name_of_special(double value) { return std::isnan(value) ? "NaN" : value > 0 ? "inf" : "-inf"; }

Text of_f32(std::uint64_t bits) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!std::isfinite(value))
        return {fmt::format("__uint_as_float(0x{:08x}u /* {} */)", static_cast<std::uint32_t>(bits),
                            name_of_special(value))};
    return of_float(value, true, fmt::format("{}", value), fmt::format("{:a}", value));
}

Text of_f64(std::uint64_t bits) {
    const auto value = std::bit_cast<double>(bits);
    if (!std::isfinite(value))
        return {fmt::format("__longlong_as_double(0x{:016x}ll /* {} */)", bits, name_of_special(value))};
    return of_float(value, false, fmt::format("{}", value), fmt::format("{:a}", value));
}

std::int64_t extend(Element type, std::uint64_t bits) {
    const int unused = 64 - bits_of(type);
    if (is_signed_integer(type)) return static_cast<std::int64_t>(bits << unused) >> unused;
    return static_cast<std::int64_t>((bits << unused) >> unused);
}

Text of_signed(Element type, std::int64_t value) {
    const Precedence precedence = value < 0 ? Precedence::unary : Precedence::primary;
    if (type != i64) {
        if (value == std::numeric_limits<std::int32_t>::min())
            return {"-2147483647 - 1", Precedence::sum, {}, {}, true};
        return {fmt::format("{}", value), precedence, {}, {}, true};
    }
    if (value == std::numeric_limits<std::int64_t>::min())
        return {"-9223372036854775807ll - 1", Precedence::sum, {}, {}, true};
    const bool fits = std::in_range<std::int32_t>(value) && value != std::numeric_limits<std::int32_t>::min();
    return {fmt::format("{}ll", value), precedence, fits ? fmt::format("{}", value) : "", precedence, true};
}

Text of_unsigned(Element type, std::uint64_t value, bool hex) {
    const char* suffix = type == u64 ? "ull" : "u";
    const bool fits = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
    if (hex) return {fmt::format("0x{:x}{}", value, suffix), Precedence::primary, {}, {}, true};
    return {fmt::format("{}{}", value, suffix), Precedence::primary, fits ? fmt::format("{}", value) : "",
            Precedence::primary, true};
}

/// Value of a small binary float; `fraction` bits of mantissa. For comments only.
double decode(std::uint64_t bits, int exponent_bits, int fraction) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto mantissa = static_cast<double>(bits & ((1u << fraction) - 1));
    const int exponent = static_cast<int>((bits >> fraction) & ((1u << exponent_bits) - 1));
    const double magnitude = exponent == 0
                                 ? std::ldexp(mantissa, 1 - bias - fraction)
                                 : std::ldexp(mantissa + std::ldexp(1.0, fraction), exponent - bias - fraction);
    return (bits >> (exponent_bits + fraction) & 1) != 0 ? -magnitude : magnitude;
}

Text of_narrow_float(Element type, std::uint64_t bits) {
    const auto code = static_cast<std::uint32_t>(bits & ((std::uint64_t{1} << bits_of(type)) - 1));
    int exponent_bits = 0, fraction = 0;
    if (type == bf16) exponent_bits = 8, fraction = 7;
    if (type == f16) exponent_bits = 5, fraction = 10;
    if (type == e5m2) exponent_bits = 5, fraction = 2;
    if (type == e4m3) exponent_bits = 4, fraction = 3;
    if (type == e5m6) exponent_bits = 5, fraction = 6;
    if (type == e2m1) exponent_bits = 2, fraction = 1;
    std::string text = fmt::format("0x{:0{}x}u", code, bits_of(type) / 4);
    const std::uint32_t exponent = code >> fraction & ((1u << exponent_bits) - 1);
    const bool all_ones = exponent == (1u << exponent_bits) - 1;
    const bool special = type == e4m3 ? (code & 0x7f) == 0x7f : all_ones && type != e2m1;
    if (exponent_bits != 0 && !special) text += fmt::format(" /* {} */", decode(code, exponent_bits, fraction));
    return {text, Precedence::primary, {}, {}, true};
}

}  // namespace

Text literal(Element type, std::uint64_t bits) {
    if (type == f32 || type == tf32) return of_f32(bits);
    if (type == f64) return of_f64(bits);
    if (type == boolean) return {(bits & 1) != 0 ? "true" : "false", Precedence::primary, {}, {}, true};
    if (is_float(type)) return of_narrow_float(type, bits);
    const std::int64_t value = extend(type, bits);
    if (is_signed_integer(type)) return of_signed(type, value);
    return of_unsigned(type, static_cast<std::uint64_t>(value), false);
}

Text bit_literal(Element type, std::uint64_t bits) {
    if (!is_integer(type)) return literal(type, bits);
    const std::int64_t value = extend(type, bits);
    if (is_unsigned_integer(type)) return of_unsigned(type, static_cast<std::uint64_t>(value), true);
    if (value < 0) return of_signed(type, value);
    return {fmt::format("0x{:x}{}", value, type == i64 ? "ll" : ""), Precedence::primary, {}, {}, true};
}

Text word_literal(std::uint32_t word) {
    return {word == 0 ? "0u" : fmt::format("0x{:08x}u", word), Precedence::primary, {}, {}, true};
}

}  // namespace tessera::emit

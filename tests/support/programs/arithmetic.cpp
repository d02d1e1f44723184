#include "tests/support/programs/arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "tests/support/reference/formats.hpp"
#include "tests/support/reference/narrow.hpp"

namespace tessera::test {
namespace {

using ir::BinaryOp;
using ir::UnaryOp;

[[noreturn]] void unsupported() { throw std::logic_error("the evaluator has no such operation on this type"); }

bool whole(Element type) { return is_integer(type) || type == boolean; }

std::uint64_t cut(Element type, std::uint64_t bits) {
    if (type == boolean) return bits & 1;
    const int width = bits_of(type);
    return width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
}

bool less(float a, float b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }

float smaller(float a, float b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return less(b, a) ? b : a;
}

float larger(float a, float b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return less(a, b) ? b : a;
}

std::uint64_t float_operation(BinaryOp op, Element type, float a, float b) {
    switch (op) {
        case BinaryOp::add: return float_bits(type, a + b);
        case BinaryOp::sub: return float_bits(type, a - b);
        case BinaryOp::mul: return float_bits(type, a * b);
        case BinaryOp::div: return float_bits(type, a / b);
        case BinaryOp::min_nan: return float_bits(type, std::isnan(a) || std::isnan(b) ? NAN : smaller(a, b));
        case BinaryOp::max_nan: return float_bits(type, std::isnan(a) || std::isnan(b) ? NAN : larger(a, b));
        case BinaryOp::min: return float_bits(type, smaller(a, b));
        case BinaryOp::max: return float_bits(type, larger(a, b));
        case BinaryOp::eq: return a == b;
        case BinaryOp::ne: return a != b;
        case BinaryOp::lt: return a < b;
        case BinaryOp::le: return a <= b;
        case BinaryOp::gt: return a > b;
        case BinaryOp::ge: return a >= b;
        default: unsupported();
    }
}

template <class T>
T negated(T a) {
    return static_cast<T>(0 - static_cast<std::uint64_t>(a));
}

/// Division, remainder, order and shifts depend on the sign; T is std::int64_t or std::uint64_t.
template <class T>
std::uint64_t ordered_operation(BinaryOp op, T a, T b) {
    switch (op) {
        case BinaryOp::div: return static_cast<std::uint64_t>(b == static_cast<T>(-1) ? negated(a) : a / b);
        case BinaryOp::mod: return static_cast<std::uint64_t>(b == static_cast<T>(-1) ? T(0) : a % b);
        case BinaryOp::min: return static_cast<std::uint64_t>(a < b ? a : b);
        case BinaryOp::max: return static_cast<std::uint64_t>(a < b ? b : a);
        case BinaryOp::lt: return a < b;
        case BinaryOp::le: return a <= b;
        case BinaryOp::gt: return a > b;
        case BinaryOp::ge: return a >= b;
        case BinaryOp::shr: return static_cast<std::uint64_t>(a >> b);
        default: unsupported();
    }
}

std::uint64_t integer_operation(BinaryOp op, Element type, std::uint64_t a, std::uint64_t b) {
    switch (op) {
        case BinaryOp::add: return cut(type, a + b);
        case BinaryOp::sub: return cut(type, a - b);
        case BinaryOp::mul: return cut(type, a * b);
        case BinaryOp::bit_and: return a & b;
        case BinaryOp::bit_or: return a | b;
        case BinaryOp::bit_xor: return a ^ b;
        case BinaryOp::eq: return a == b;
        case BinaryOp::ne: return a != b;
        case BinaryOp::shl: return cut(type, a << b);
        default: break;
    }
    if (is_signed_integer(type))
        return cut(type, ordered_operation(op, integer_value(type, a), integer_value(type, b)));
    if (op == BinaryOp::div) return a / b;  // −1 has no meaning here
    if (op == BinaryOp::mod) return a % b;
    return cut(type, ordered_operation(op, a, b));
}

std::uint64_t float_to_integer(Element to, float x) {
    if (std::isnan(x)) return 0;
    const int width = bits_of(to);
    const double low = is_signed_integer(to) ? -std::ldexp(1.0, width - 1) : 0.0;
    const double end = std::ldexp(1.0, is_signed_integer(to) ? width - 1 : width);  // first value too large
    const double t = std::trunc(static_cast<double>(x));
    if (t < low) return is_signed_integer(to) ? cut(to, std::uint64_t{1} << (width - 1)) : 0;
    if (t >= end) return is_signed_integer(to) ? cut(to, ~std::uint64_t{0}) >> 1 : cut(to, ~std::uint64_t{0});
    if (is_signed_integer(to)) return cut(to, static_cast<std::uint64_t>(static_cast<std::int64_t>(t)));
    return static_cast<std::uint64_t>(t);
}

/// 1 sign, 5 bits of exponent (bias 15), 10 of fraction.
float f16_value(std::uint64_t bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const auto fraction = static_cast<float>(bits & 1023);
    if (exponent == 31) return fraction != 0 ? NAN : (bits >> 15 & 1) != 0 ? -INFINITY : INFINITY;
    const float size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return (bits >> 15 & 1) != 0 ? -size : size;
}

std::uint64_t f16_nearest(float x) {
    const std::uint64_t sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x)) return 0x7FFF;
    const double size = std::fabs(static_cast<double>(x));
    if (size >= 65520) return sign | 0x7C00;  // half a step above the largest
    const int exponent = size == 0 ? -14 : std::max(std::ilogb(size), -14);
    const double steps = std::nearbyint(std::ldexp(size, 10 - exponent));  // of 2^(exponent − 10); 1024 … 2048
    // A carry into the next exponent is what the addition makes of it.
    return sign | (static_cast<std::uint64_t>(exponent + 14) * 1024 + static_cast<std::uint64_t>(steps));
}

}  // namespace

float float_value(Element type, std::uint64_t bits) {
    switch (type) {
        case f16: return f16_value(bits);
        case tf32:
        case f32: {
            const auto narrow = static_cast<std::uint32_t>(bits);
            float x;
            std::memcpy(&x, &narrow, sizeof x);
            return x;
        }
        case bf16: return reference::bf16_value(static_cast<std::uint16_t>(bits));
        case e4m3: return static_cast<float>(reference::e4m3_value(static_cast<std::uint8_t>(bits)));
        case e2m1: return static_cast<float>(reference::value_of(reference::Format::e2m1, static_cast<unsigned>(bits)));
        default: unsupported();
    }
}

std::uint64_t float_bits(Element type, float x) {
    switch (type) {
        case f32: {
            std::uint32_t bits;
            std::memcpy(&bits, &x, sizeof x);
            return bits;
        }
        case tf32: {  // 13 bits less, ties away from 0
            const std::uint64_t bits = float_bits(f32, x);
            return std::isnan(x) ? 0x7FFFE000 : (bits + 0x1000) & 0xFFFFE000;
        }
        case f16: return f16_nearest(x);
        case bf16: return std::isnan(x) ? 0x7FFF : reference::bf16_nearest(x);
        case e4m3: return reference::e4m3_nearest(x);
        case e2m1: return reference::code_of(reference::Format::e2m1, x);
        default: unsupported();
    }
}

std::int64_t integer_value(Element type, std::uint64_t bits) {
    const int unused = 64 - bits_of(type);
    if (is_signed_integer(type)) return static_cast<std::int64_t>(bits << unused) >> unused;
    if (!whole(type)) unsupported();
    return static_cast<std::int64_t>(bits);
}

std::uint64_t apply(UnaryOp op, Element type, std::uint64_t a) {
    if (whole(type)) {
        switch (op) {
            case UnaryOp::neg: return cut(type, 0 - a);
            case UnaryOp::bit_not: return cut(type, ~a);
            case UnaryOp::abs: return integer_value(type, a) < 0 && !is_unsigned_integer(type) ? cut(type, 0 - a) : a;
            default: unsupported();
        }
    }
    const std::uint64_t sign = std::uint64_t{1} << (bits_of(type) - 1);
    switch (op) {
        case UnaryOp::neg: return a ^ sign;
        case UnaryOp::abs: return a & ~sign;
        default: unsupported();
    }
}

std::uint64_t apply(BinaryOp op, Element type, std::uint64_t a, std::uint64_t b) {
    if (whole(type)) return integer_operation(op, type, a, b);
    return float_operation(op, type, float_value(type, a), float_value(type, b));
}

std::uint64_t convert(Element from, Element to, std::uint64_t bits) {
    if (whole(from) && is_integer(to)) return cut(to, static_cast<std::uint64_t>(integer_value(from, bits)));
    if (whole(from) && to == boolean) return bits != 0;
    if (whole(from)) {
        const float x = from == u64 ? static_cast<float>(bits) : static_cast<float>(integer_value(from, bits));
        return float_bits(to, x);
    }
    if (is_integer(to)) return float_to_integer(to, float_value(from, bits));
    if (to == boolean) return float_value(from, bits) != 0;
    return float_bits(to, float_value(from, bits));
}

}  // namespace tessera::test

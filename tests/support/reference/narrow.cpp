#include "tests/support/reference/narrow.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/reference/formats.hpp"

namespace tessera::reference {
namespace {

constexpr double e2m1_magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

unsigned e2m1_nearest(float x) {
    if (std::isnan(x)) return 7;
    const double v = std::min(std::fabs(static_cast<double>(x)), 6.0);
    unsigned best = 0;
    for (unsigned code = 1; code < 8; ++code) {
        const double here = std::fabs(v - e2m1_magnitudes[code]), before = std::fabs(v - e2m1_magnitudes[best]);
        if (here < before || (here == before && code % 2 == 0)) best = code;
    }
    return best + (std::signbit(x) ? 8 : 0);
}

/// Bits of the half nearest to v ≥ 0 toward zero.
unsigned truncated_half(double v) {
    if (std::isinf(v)) return 0x7C00;
    if (v >= 65504) return 0x7BFF;
    if (v < 0x1p-14) return static_cast<unsigned>(std::floor(v * 0x1p24));
    int exponent;
    const double fraction = std::frexp(v, &exponent);  // v = fraction · 2^exponent, fraction in [0.5, 1)
    return static_cast<unsigned>(exponent + 14) * 1024 + static_cast<unsigned>(std::floor(fraction * 2048)) - 1024;
}

unsigned e5m6_code(float x) {
    if (std::isnan(x)) return 0x800;
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    unsigned code = truncated_half(std::fabs(static_cast<double>(x))) / 16;
    if (code % 2 + bits % 0x20000 > 0x10000) ++code;
    return code + (std::signbit(x) ? 0x800 : 0);
}

double e5m6_magnitude(unsigned code) {
    const int exponent = static_cast<int>(code / 64);
    const int mantissa = static_cast<int>(code % 64);
    if (exponent == 31) return mantissa == 0 ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
    return exponent == 0 ? std::ldexp(mantissa, -20) : std::ldexp(64 + mantissa, exponent - 21);
}

/// The byte of a row's stream that holds byte `i` counted from the highest: words are little-endian.
std::size_t byte_place(Format format, std::size_t i) { return format == Format::e5m6 ? i / 4 * 4 + 3 - i % 4 : i; }

/// Where nibble `n` of the code stream lies, codes written with their highest nibble first.
struct NibblePlace {
    std::size_t byte;
    int shift;
};
NibblePlace nibble_place(Format format, std::size_t n) {
    const bool high_first = format != Format::e2m1;
    return {byte_place(format, n / 2), (n % 2 == 0) == high_first ? 4 : 0};
}

}  // namespace

int bits_of(Format format) { return format == Format::e4m3 ? 8 : format == Format::e2m1 ? 4 : 12; }
int pack_of(Format format) { return format == Format::e4m3 ? 1 : format == Format::e2m1 ? 2 : 8; }
unsigned largest_code_of(Format format) { return format == Format::e4m3 ? 0x7E : format == Format::e2m1 ? 7 : 0x7BF; }
double largest_of(Format format) { return value_of(format, largest_code_of(format)); }

double value_of(Format format, unsigned code) {
    if (format == Format::e4m3) return e4m3_value(static_cast<std::uint8_t>(code));
    const unsigned half = format == Format::e2m1 ? 8 : 0x800;
    const double magnitude = format == Format::e2m1 ? e2m1_magnitudes[code % half] : e5m6_magnitude(code % half);
    return code >= half ? -magnitude : magnitude;
}

unsigned code_of(Format format, float x) {
    switch (format) {
        case Format::e4m3: return e4m3_nearest(x);
        case Format::e2m1: return e2m1_nearest(x);
        default: return e5m6_code(x);
    }
}

std::vector<std::uint8_t> packed(Format format, const std::vector<std::uint16_t>& codes) {
    const std::size_t nibbles = static_cast<std::size_t>(bits_of(format)) / 4;
    std::vector<std::uint8_t> bytes(codes.size() * nibbles / 2);
    for (std::size_t n = 0; n < codes.size() * nibbles; ++n) {
        const auto [byte, shift] = nibble_place(format, n);
        const unsigned down = 4 * static_cast<unsigned>(nibbles - 1 - n % nibbles);
        bytes[byte] = static_cast<std::uint8_t>(bytes[byte] | (codes[n / nibbles] >> down & 0xF) << shift);
    }
    return bytes;
}

std::vector<std::uint16_t> unpacked(Format format, const std::vector<std::uint8_t>& bytes) {
    const std::size_t nibbles = static_cast<std::size_t>(bits_of(format)) / 4;
    std::vector<std::uint16_t> codes(bytes.size() * 2 / nibbles);
    for (std::size_t n = 0; n < codes.size() * nibbles; ++n) {
        const auto [byte, shift] = nibble_place(format, n);
        std::uint16_t& code = codes[n / nibbles];
        code = static_cast<std::uint16_t>(code << 4 | (bytes[byte] >> shift & 0xF));
    }
    return codes;
}

}  // namespace tessera::reference

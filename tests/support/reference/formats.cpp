#include "tests/support/reference/formats.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace tessera::reference {
namespace {

constexpr int finite_magnitudes = 127;  // codes 0x00 … 0x7E

double e4m3_magnitude(int code) {
    const int exponent = code >> 3;
    const int mantissa = code & 7;
    if (exponent == 0) return std::ldexp(mantissa, -9);
    return std::ldexp(8 + mantissa, exponent - 10);
}

const std::array<double, finite_magnitudes>& magnitudes() {
    static const auto table = [] {
        std::array<double, finite_magnitudes> t{};
        for (int code = 0; code < finite_magnitudes; ++code) t[code] = e4m3_magnitude(code);
        return t;
    }();
    return table;
}

}  // namespace

double e4m3_value(std::uint8_t code) {
    const int magnitude = code & 0x7F;
    if (magnitude == 0x7F) return std::numeric_limits<double>::quiet_NaN();
    return (code & 0x80) != 0 ? -e4m3_magnitude(magnitude) : e4m3_magnitude(magnitude);
}

std::uint8_t e4m3_nearest(float x) {
    if (std::isnan(x)) return 0x7F;
    const std::uint8_t sign = std::signbit(x) ? 0x80 : 0;
    const double v = std::fabs(static_cast<double>(x));
    const auto& table = magnitudes();
    if (v >= table.back()) return sign | 0x7E;

    int below = 0, above = finite_magnitudes - 1;  // table[below] <= v < table[above]
    while (above - below > 1) {
        const int middle = (below + above) / 2;
        (table[middle] <= v ? below : above) = middle;
    }
    const double down = v - table[below], up = table[above] - v;  // exact: both are close to v or v is tiny
    int code = below;
    if (up < down || (up == down && below % 2 != 0)) code = above;
    return static_cast<std::uint8_t>(sign | code);
}

float bf16_value(std::uint16_t bits) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

std::uint16_t bf16_nearest(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const auto below = static_cast<std::uint16_t>(bits >> 16);
    const std::uint32_t rest = bits & 0xFFFF;
    const bool up = rest > 0x8000 || (rest == 0x8000 && (below & 1) != 0);
    return static_cast<std::uint16_t>(below + (up ? 1 : 0));
}

}  // namespace tessera::reference

#include "tests/support/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/support/random.hpp"
#include "tests/support/reference/formats.hpp"

namespace tessera::test {
namespace {

enum class Kind { normal, zero, tiny, subnormal, huge, power, midpoint, spike };

float sign(Random& random) { return random.one_in(2) ? -1.0f : 1.0f; }

/// Nearly normal: a sum of four uniforms.
float normal(Random& random) {
    return static_cast<float>((random.unit() + random.unit() + random.unit() + random.unit() - 2) * 1.7);
}

/// A value half-way between two neighbouring codes (below the largest), or the largest.
float midpoint(Random& random, reference::Format format) {
    const unsigned last = reference::largest_code_of(format);
    if (random.one_in(8)) return static_cast<float>(reference::largest_of(format));
    const auto code = static_cast<unsigned>(random.between(0, last - 1));
    return static_cast<float>((reference::value_of(format, code) + reference::value_of(format, code + 1)) / 2);
}

float value_of(Random& random, Kind kind, int exponent, reference::Format format) {
    switch (kind) {
        case Kind::zero: return sign(random) * 0.0f;
        case Kind::tiny: return normal(random) * 1e-30f;
        case Kind::subnormal: return normal(random) * 1e-40f;
        case Kind::huge: return normal(random) * 9e37f;
        case Kind::power: return sign(random) * std::ldexp(1.0f, exponent + static_cast<int>(random.between(-9, 0)));
        case Kind::midpoint: return sign(random) * std::ldexp(midpoint(random, format), exponent);
        case Kind::spike: return random.one_in(64) ? std::ldexp(301.0f, exponent) : normal(random) * 0.01f;
        default: return normal(random);
    }
}

Kind random_kind(Random& random) {
    return random.pick({Kind::normal, Kind::normal, Kind::normal, Kind::zero, Kind::tiny, Kind::subnormal, Kind::huge,
                        Kind::power, Kind::midpoint, Kind::midpoint, Kind::spike});
}

}  // namespace

std::vector<std::uint8_t> hard_values(Element type, std::int64_t count, std::uint64_t seed, reference::Format format) {
    Random random(seed);
    const std::size_t size = type == bf16 ? 2 : 4;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * size);
    std::size_t at = 0;
    while (at < bytes.size()) {
        const Kind kind = random_kind(random);
        const int exponent = static_cast<int>(random.between(-12, 12));
        const std::size_t end =
            std::min(bytes.size(), at + size * static_cast<std::size_t>(random.pick({17, 64, 128, 300})));
        for (; at < end; at += size) {
            const float x = value_of(random, kind, exponent, format);
            if (type == bf16) {
                const std::uint16_t narrow = reference::bf16_nearest(x);
                std::memcpy(&bytes[at], &narrow, size);
            } else {
                std::memcpy(&bytes[at], &x, size);
            }
        }
    }
    return bytes;
}

std::vector<std::uint8_t> random_codes(reference::Format format, std::int64_t count, std::uint64_t seed) {
    Random random(seed);
    const unsigned last = reference::largest_code_of(format);
    const unsigned sign = 1u << (reference::bits_of(format) - 1);
    std::vector<std::uint16_t> codes(static_cast<std::size_t>(count));
    for (std::size_t at = 0; at < codes.size();) {
        const unsigned top = random.pick({2 * sign - 1, last, last, last, last / 3, 0u});
        const std::size_t end =
            std::min(codes.size(), at + static_cast<std::size_t>(random.pick({16, 100, 128, 1000})));
        for (; at < end; ++at) {
            const auto code = static_cast<unsigned>(random.between(0, top));
            codes[at] = static_cast<std::uint16_t>(code | (random.one_in(2) ? sign : 0));
        }
    }
    return reference::packed(format, codes);
}

std::vector<float> random_scales(std::int64_t count, bool powers, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> scales;
    while (static_cast<std::int64_t>(scales.size()) < count) {
        const auto around = static_cast<int>(random.pick({-120, -60, -20, -4, 0, 0, 0, 3, 20, 60, 100}));
        const auto spread = static_cast<int>(random.between(0, 6));
        for (int i = 0; i < 40 && static_cast<std::int64_t>(scales.size()) < count; ++i) {
            const float digits = powers ? 1.0f : static_cast<float>(1 + random.unit());
            scales.push_back(std::ldexp(digits, around + static_cast<int>(random.between(-spread, spread))));
        }
    }
    return scales;
}

std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<std::uint8_t> bytes(count);
    for (std::size_t i = 0; i < count; i += 8) {
        const std::uint64_t word = random.next();
        std::memcpy(&bytes[i], &word, std::min<std::size_t>(8, count - i));
    }
    return bytes;
}

}  // namespace tessera::test

#include "tests/support/kernels/nearly.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/core.h>

namespace tessera::test {
namespace {

/// accept(a, b) says whether an unequal pair may be, now and then.
template <class T, class Accept>
std::string compare(const char* name, const std::vector<T>& got, const std::vector<T>& expected, bool exact,
                    Accept&& accept) {
    if (got.size() != expected.size())
        return fmt::format("{} has {} elements instead of {}", name, got.size(), expected.size());
    std::size_t left = exact ? 0 : 2 + expected.size() / 5000;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (got[i] == expected[i]) continue;
        if (left > 0 && accept(got[i], expected[i])) {
            --left;
            continue;
        }
        return fmt::format("{}[{}] is {:#x}, the reference has {:#x}", name, i, got[i], expected[i]);
    }
    return "";
}

float float_of(std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

}  // namespace

std::string compare_codes(const char* name, const std::vector<std::uint8_t>& got,
                          const std::vector<std::uint8_t>& expected, bool exact) {
    return compare(name, got, expected, exact, [](int a, int b) { return std::abs(a - b) == 1; });
}

std::string compare_bf16(const char* name, const std::vector<std::uint16_t>& got,
                         const std::vector<std::uint16_t>& expected, bool exact) {
    return compare(name, got, expected, exact, [](int a, int b) { return std::abs(a - b) == 1; });
}

std::string compare_scale_words(const char* name, const std::vector<std::uint32_t>& got,
                                const std::vector<std::uint32_t>& expected, bool rounded, bool exact) {
    if (exact || rounded) return compare(name, got, expected, exact, [](std::uint32_t, std::uint32_t) { return true; });
    if (got.size() != expected.size())
        return fmt::format("{} has {} elements instead of {}", name, got.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const float a = float_of(got[i]), b = float_of(expected[i]);
        if (got[i] != expected[i] && !(std::fabs(a - b) <= 1e-6f * std::fabs(b)))
            return fmt::format("{}[{}] is {}, the reference has {}", name, i, a, b);
    }
    return "";
}

}  // namespace tessera::test

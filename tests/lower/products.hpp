#pragma once

#include <cstdint>
#include <tessera/dsl.hpp>
#include <type_traits>
#include <vector>

#include "dsl/base/convert.hpp"

// What products on tensor cores are held against. Sizes has the extents m, n and k.

namespace tessera::test {

/// The codes of numbers in a type that tensor cores take.
template <Element T>
auto codes_of(const std::vector<float>& values) {
    using Code = std::conditional_t<bits_of(T) == 32, std::uint32_t,
                                    std::conditional_t<bits_of(T) == 16, std::uint16_t, std::uint8_t>>;
    std::vector<Code> codes;
    for (float v : values) codes.push_back(static_cast<Code>(encode_float(T, v)));
    return codes;
}

/// By plain sums: c[m][n] + Σ a[m][k] · b[n][k].
template <class Sizes>
std::vector<float> product(const Sizes& s, const std::vector<float>& a, const std::vector<float>& b,
                           std::vector<float> c) {
    for (std::int64_t m = 0; m < s.m; ++m)
        for (std::int64_t n = 0; n < s.n; ++n)
            for (std::int64_t k = 0; k < s.k; ++k) c[m * s.n + n] += a[m * s.k + k] * b[n * s.k + k];
    return c;
}

}  // namespace tessera::test

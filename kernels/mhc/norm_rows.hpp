#pragma once

#include <vector>

#include "dsl/front/kernel.hpp"

// What the kernels behind the forward product share, so that they agree to the bit.

namespace tessera::mhc {

/// zero + part(0) + part(1) + … one after the other; a few are loaded together. part(s) is 0 from `count` on.
template <int R, class Part>
Value<f32, R> ordered_sum(Kernel& k, const Value<f32, R>& zero, const Dim& count, Part&& part) {
    constexpr std::int64_t together = 8;
    auto sum = k.variable(zero);
    k.serial(ceil_div(count, together), [&](Index group) {
        std::vector<Value<f32, R>> parts;
        for (std::int64_t i = 0; i < together; ++i) parts.push_back(part(group * together + i));
        for (const auto& p : parts) sum = sum.get() + p;
    });
    return sum.get();
}

/// 1 / √(mean of the squares + eps). inner: how many numbers were squared.
template <int R>
Value<f32, R> inverse_norm(const Value<f32, R>& square_sum, const Value<f32, 0>& inner, const Value<f32, 0>& eps) {
    return rsqrt(square_sum / inner + eps);
}

}  // namespace tessera::mhc

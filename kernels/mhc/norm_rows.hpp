#pragma once

#include <vector>

#include "dsl/front/kernel.hpp"

// What the kernels behind the forward product share, so that they agree to the bit.

namespace tessera::mhc {

/// Of so many splits, how many are loaded at once where a thread has `numbers` of each.
constexpr std::int64_t splits_at_once(std::int64_t splits, std::int64_t numbers) {
    std::int64_t at_once = 1;
    while (at_once < splits && at_once < 8 && 2 * at_once * numbers <= 56) at_once *= 2;
    return at_once;
}

/// add(part(0)), add(part(1)), … one after the other for all splits, `at_once` of them loaded together. part(s) is to
/// be zeros from `splits` on.
template <class Part, class Add>
void each_split(Kernel& k, const Dim& splits, std::int64_t at_once, Part&& part, Add&& add) {
    k.serial(ceil_div(splits, at_once), [&](Index group) {
        std::vector<decltype(part(group))> parts;
        for (std::int64_t i = 0; i < at_once; ++i) parts.push_back(part(group * at_once + i));
        for (const auto& p : parts) add(p);
    });
}

/// 1 / √(mean of the squares + eps). inner: how many numbers were squared.
template <int R>
Value<f32, R> inverse_norm(const Value<f32, R>& square_sum, const Value<f32, 0>& inner, const Value<f32, 0>& eps) {
    return rsqrt(square_sum / inner + eps);
}

}  // namespace tessera::mhc

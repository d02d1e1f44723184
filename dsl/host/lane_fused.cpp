#include <cmath>
#include <cstdint>

#include "dsl/host/lane_ops.hpp"
#include "dsl/host/lane_values.hpp"

namespace tessera::host {

namespace {

using F32 = Values<Element::f32>;

void fma_loop(void* out, const void* const* in, std::size_t n) {
    const auto* a = static_cast<const std::uint32_t*>(in[0]);
    const auto* b = static_cast<const std::uint32_t*>(in[1]);
    const auto* c = static_cast<const std::uint32_t*>(in[2]);
    auto* __restrict to = static_cast<std::uint32_t*>(out);
    for (std::size_t i = 0; i < n; ++i)
        to[i] = F32::encode(std::fma(F32::decode(a[i]), F32::decode(b[i]), F32::decode(c[i])));
}

// Without branches, so that the loop vectorises.
using Flag = std::uint32_t;
Flag in_range(float x) { return Flag{x >= 0x1p-100f} & Flag{x <= 0x1p100f}; }

void unbounded_loop(void* out, const void* const* in, std::size_t n) {
    const auto* a = static_cast<const float*>(in[0]);
    const auto* b = static_cast<const float*>(in[1]);
    auto* __restrict to = static_cast<Flag*>(out);
    for (std::size_t i = 0; i < n; ++i) {
        const float x = std::fabs(a[i]), y = b[i];
        const Flag exact = Flag{x == 0} | Flag{y == 1} | Flag{y == 2};
        const Flag allowed = in_range(y) & (exact | (Flag{x >= 0x1p-100f} & in_range(x / y)));
        const Flag finite = Flag{x < INFINITY} & Flag{y == y};  // false for a NaN, too
        to[i] = finite & ~allowed;
    }
}

void past_e2m1_loop(void* out, const void* const* in, std::size_t n) {
    const auto* v = static_cast<const float*>(in[0]);
    auto* __restrict to = static_cast<Flag*>(out);
    for (std::size_t i = 0; i < n; ++i) to[i] = Flag{std::fabs(v[i]) >= 7.0f};
}

void past_e2m1_from_f16_loop(void* out, const void* const* in, std::size_t n) {
    const auto* v = static_cast<const std::uint32_t*>(in[0]);
    auto* __restrict to = static_cast<Flag*>(out);
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t magnitude = v[i] & 0x7FFFFFFFu;
        const Flag large = Flag{magnitude >= 0x40E00000u}, long_ = Flag{(magnitude & 0xFFFFu) != 0};
        to[i] = (large | long_) & Flag{magnitude <= 0x7F800000u};
    }
}

}  // namespace

LaneFunction fma_function() { return &fma_loop; }
LaneFunction unbounded_function() { return &unbounded_loop; }
LaneFunction past_e2m1_function(Element from) {
    return from == Element::f16 ? &past_e2m1_from_f16_loop : &past_e2m1_loop;
}

}  // namespace tessera::host

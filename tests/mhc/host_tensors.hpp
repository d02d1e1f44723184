#pragma once

#include <limits>
#include <tessera/runtime.hpp>
#include <vector>

#include "tests/support/kernels/mhc_check_support.hpp"

// Tensors on the host from numbers, and back.

namespace tessera::test {

inline const Device host = Device::host();
inline constexpr float inf = std::numeric_limits<float>::infinity();

/// F32 of these extents.
inline Tensor numbers(const Shape& extents, const std::vector<float>& values) {
    return Tensor::from_host(host, f32, extents, values.data());
}
inline Tensor zeros(Element e, const Shape& extents) { return Tensor::zeros(host, e, extents); }
inline std::vector<float> values_of(const Tensor& t) { return numbers_of(host.stream(), t); }

}  // namespace tessera::test

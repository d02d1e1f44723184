#pragma once

#include "dsl/front/kernel.hpp"

// What forward and backward share inside kernels.

namespace tessera::swiglu {

/// min(v, c) that keeps NaN.
template <int R>
Value<f32, R> cut_above(const Value<f32, R>& v, const Value<f32, 0>& c) {
    return select(~(v > c), v, c);
}
/// Between −c and c; keeps NaN.
template <int R>
Value<f32, R> cut_both(const Value<f32, R>& v, const Value<f32, 0>& c) {
    return select(~(v < -c), cut_above(v, c), -c);
}

/// 1 + e^(−v)
template <int R>
Value<f32, R> sigmoid_divisor(const Value<f32, R>& v) {
    return exp(-v) + 1.0f;
}

}  // namespace tessera::swiglu

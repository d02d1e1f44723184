#pragma once

#include "dsl/front/kernel.hpp"

namespace tessera::mhc {

/// v rounded to TF32: to nearest, ties away from 0; infinities and NaN stay what they are.
template <int R>
Value<f32, R> nearest_tf32(const Value<f32, R>& v) {
    const auto bits = bitcast<u32>(v);
    const auto rounded = select(v == v, bits + 0x1000u, bits | 0x7FFFE000u);
    return bitcast<f32>(rounded & 0xFFFFE000u);
}

}  // namespace tessera::mhc

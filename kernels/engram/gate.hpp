#pragma once

#include "dsl/front/kernel.hpp"
#include "kernels/engram.hpp"

// What the gate's two directions share.

namespace tessera::engram {

/// H^(−1/2), rounded once.
float inverse_root(std::int64_t hidden);

/// Extents of a call.
struct GateShape {
    std::int64_t tokens, heads, hidden;
    Shape rows() const { return {tokens, heads, hidden}; }
    Shape scores() const { return {tokens, heads}; }
};

/// Errors: UsageError naming what does not fit.
GateShape check_gate(const char* function, const Stream& stream, const GateInputs& inputs);
void check_clamp(const char* function, float clamp_value);

/// k and v as the kernels take them: strides that mean nothing, of extents of 1, are made multiples of 16.
TensorView with_strides(const TensorView& x);
/// Whether every row of these begins at a multiple of 16 bytes.
bool rows_at_16_bytes(std::initializer_list<const TensorView*> views);

/// The inputs as a kernel declares them.
struct GateTensors {
    Dim tokens;
    Global<bf16, 3> x, k;
    Global<bf16, 2> v;
    Global<f32, 2> w;

    GateTensors(Kernel& k, std::int64_t heads, std::int64_t hidden, bool aligned);
};

}  // namespace tessera::engram

#pragma once

#include <optional>

#include "kernels/quant.hpp"

// SwiGLU of a mixture of experts, fused with quantization. A row of x holds the gate in its first half and the linear
// part in its second: H channels each.

namespace tessera::swiglu {

struct ForwardOptions {
    /// Channels that share a scale: 16, 32, 64, 128, or all H.
    std::int64_t num_per_channels = 128;
    quant::ScaleLayout scale_layout = quant::ScaleLayout::row_major;
    /// Scales are rounded up to powers of two; packed scales always are.
    bool round_sf = false;
    /// c > 0: the gate is cut at c, the linear part at ±c.
    std::optional<float> swiglu_clamp_value;
    /// What amax is at least; 1e-4 by default. At least 448 · 2⁻¹²⁶.
    std::optional<float> sf_clamp_min;
};

/// Where rows come from; all optional.
struct ForwardMaps {
    /// i32 (N): row r is weighted with topk_weights.flat[pos_to_token_topk[r]]; with 0 where that is negative or past
    /// the end.
    std::optional<TensorView> pos_to_token_topk;
    /// f32 (T, K); goes with pos_to_token_topk.
    std::optional<TensorView> topk_weights;
    /// i32 (N): rows with a negative entry are skipped; their codes and scales are not written.
    std::optional<TensorView> pos_to_expert;
    /// i64 (3), needs a clamp value: added to are the numbers of gate values > c, of linear values > c and of linear
    /// values < −c, each counted before the cut, in all rows that are not skipped.
    std::optional<TensorView> clamped_count;
};

/// v = l / (1 + e^(−l)) · u · w in FP32, each step rounded once; l the gate, u the linear part, both cut if there is a
/// clamp value; then quantized to E4M3 in groups as quant::per_token_cast does. NaN is never cut and becomes the NaN
/// code. x: BF16 or FP32 (N, 2H), N ≥ 0, inner stride 1. Gives data E4M3 (N, H) and sf for M = N,
/// K = ⌈H / num_per_channels⌉. Errors: UsageError naming the argument, before anything is allocated or launched.
quant::Quantized forward_and_per_token_cast(const Stream& stream, const TensorView& x,
                                            const ForwardOptions& options = {}, const ForwardMaps& maps = {});
/// The same into given tensors, which are as quant::per_token_cast needs them.
void forward_and_per_token_cast(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                                const ForwardOptions& options = {}, const ForwardMaps& maps = {});

struct BackwardOptions {
    /// Channels that share a scale, in x and in the gradient: 16, 32, 64 or 128; divides H.
    std::int64_t num_per_channels = 128;
    /// Scales of the gradient are rounded up to powers of two.
    bool round_sf = false;
    std::optional<float> swiglu_clamp_value;
};

struct BackwardInputs {
    TensorView x;                  ///< e4m3 (N, 2H), or with more leading axes; dense
    TensorView x_sf;               ///< f32 (N, 2H / num_per_channels), dense
    TensorView grad_out;           ///< bf16 (N, H), or any dense shape with as many elements
    TensorView weight;             ///< f32 (T, K), dense
    TensorView pos_to_token_topk;  ///< i32 (N): which weight a row has; negative for padding, which has weight 0
    TensorView token_topk_to_pos;  ///< i32 (T, K), dense: negative where the slot has no row here
};

template <class T>
struct BackwardOutputs {
    T out;          ///< bf16 (N, H): the weighted activation again
    T x_grad_q;     ///< e4m3 (N, 2H)
    T x_grad_sf;    ///< f32 (N, 2H / num_per_channels)
    T x_grad;       ///< bf16 (N, 2H)
    T weight_grad;  ///< f32 (T, K); 0 where no row has the slot
};

/// Gradients of the weighted SwiGLU. With x̂ = code · sf cut as in the forward pass, d = 1 + e^(−x), s = 1 / d,
/// a = x / d · y and h = G · w · s: out = a · w, gx = h · y · fma(x, 1 − s, 1), gy = h · x, both +0 where the value was
/// cut; the weight's gradient is Σ G · a. The gradient comes rounded to BF16, and quantized from FP32. Padding rows
/// give zeros with the signs of these formulas. Errors: UsageError naming the argument, before anything is allocated or
/// launched.
BackwardOutputs<Tensor> backward_and_per_token_cast(const Stream& stream, const BackwardInputs& inputs,
                                                    const BackwardOptions& options = {});
/// The same into given dense tensors.
void backward_and_per_token_cast(const Stream& stream, const BackwardInputs& inputs,
                                 const BackwardOutputs<TensorView>& outputs, const BackwardOptions& options = {});

/// Which optional inputs a forward kernel has.
struct ForwardShape {
    bool weights = false, pos_to_expert = false, count = false;
};
/// The kernels themselves, as recorded for rows of 2 · hidden channels. aligned: rows begin at multiples of 16 bytes.
Program forward_and_per_token_cast_program(Element in, std::int64_t hidden, const ForwardOptions& options = {},
                                           const ForwardShape& shape = {}, bool aligned = true);
Program backward_and_per_token_cast_program(std::int64_t hidden, const BackwardOptions& options = {},
                                            bool aligned = true);

}  // namespace tessera::swiglu

#pragma once

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"

// Manifold hyper-connections (mHC): the small numbers that say how a token's m streams are mixed, 1 ≤ m ≤ 8.
//
// Tensors are dense, unless stated, and have any leading axes, whose product is the number of tokens. No tokens are
// success: gradients of parameters are then 0. Errors: UsageError naming the argument, before anything is allocated or
// launched.

namespace tessera::mhc {

struct SinkhornOptions {
    std::int64_t repeat = 10;  ///< 1 … 2^16: how often rows and columns are normalised
    float eps = 1e-6f;         ///< ≥ 0: added to the softmax and to every sum that is divided by
};

/// Makes each token's matrix almost doubly stochastic: y = softmax over o + eps, y /= (sum over i + eps), and then
/// repeat − 1 times y /= (sum over o + eps), y /= (sum over i + eps). logits: f32 (…, m, m) as (i, o); gives f32 of its
/// extents. A matrix with a NaN, with +∞ or with a row of −∞ becomes NaN; others are not touched by it.
Tensor sinkhorn_forward(const Stream& stream, const TensorView& logits, const SinkhornOptions& options = {});
/// The same into a given tensor.
void sinkhorn_forward(const Stream& stream, const TensorView& logits, const TensorView& out,
                      const SinkhornOptions& options = {});

/// The gradient of the logits from that of the result; everything else is computed again. Both f32 like the logits.
/// Many repeats (13 and more at m = 4), and any with m = 3, 5, 6 or 7, take memory of the stream for the sums in
/// between.
Tensor sinkhorn_backward(const Stream& stream, const TensorView& logits, const TensorView& grad_out,
                         const SinkhornOptions& options = {});
void sinkhorn_backward(const Stream& stream, const TensorView& logits, const TensorView& grad_out,
                       const TensorView& grad_logits, const SinkhornOptions& options = {});

/// Logits of J = m · (m + 2) mixes a token: m for pre, m for post, m · m for comb, as (i, o). Their rows may lie any
/// stride apart, such as columns of a wider tensor do.
struct SplitInputs {
    TensorView logits;  ///< f32 (…, J)
    TensorView scale;   ///< f32 (3): of pre, post and comb
    TensorView base;    ///< f32 (J)
};
struct SplitOptions {
    float post_mult = 1.0f;
    float pre_eps = 1e-6f;  ///< ≥ 0
};
template <class T>
struct Mixes {
    T pre;   ///< f32 (…, m): sigmoid(logit · scale + base) + pre_eps
    T post;  ///< f32 (…, m): sigmoid(logit · scale + base) · post_mult
    T comb;  ///< f32 (…, m, m): logit · scale + base
};
/// Each affine value is one fma, and the sigmoid of v is 1 / (1 + e^(−v)).
Mixes<Tensor> split_mixes_forward(const Stream& stream, const SplitInputs& inputs, const SplitOptions& options = {});
void split_mixes_forward(const Stream& stream, const SplitInputs& inputs, const Mixes<TensorView>& out,
                         const SplitOptions& options = {});

/// Which gradients of parameters are added to what their tensors hold; the others are overwritten.
struct Accumulate {
    bool scale = false, base = false;
};
template <class T>
struct MixGradients {
    T logits;  ///< f32 like the logits, but dense
    T scale;   ///< f32 like scale: Σ over tokens and the section's mixes of a · logit
    T base;    ///< f32 like base: Σ over tokens of a
};
/// With a the gradient of the affine value: g · p · (1 − p) for pre, with its sigmoid p computed again;
/// g · post · (1 − post / post_mult), with post as the forward pass gave it; g for comb. The logits' is a · scale. Sums
/// over tokens have a fixed order, the same on every device. post_mult is not 0.
MixGradients<Tensor> split_mixes_backward(const Stream& stream, const SplitInputs& inputs, const TensorView& post,
                                          const Mixes<TensorView>& grad_out, const SplitOptions& options = {});
void split_mixes_backward(const Stream& stream, const SplitInputs& inputs, const TensorView& post,
                          const Mixes<TensorView>& grad_out, const MixGradients<TensorView>& gradients,
                          const SplitOptions& options = {}, const Accumulate& accumulate = {});

/// The mix of a head: logits f32 (…, m) with rows any stride apart, scale f32 (1), base f32 (m).
using HeadInputs = SplitInputs;
/// sigmoid(logit · scale + base) + pre_eps, f32 (…, m).
Tensor head_compute_mix_forward(const Stream& stream, const HeadInputs& inputs, float pre_eps = 1e-6f);
void head_compute_mix_forward(const Stream& stream, const HeadInputs& inputs, const TensorView& out,
                              float pre_eps = 1e-6f);
/// Gradients as those of pre in split_mixes_backward.
MixGradients<Tensor> head_compute_mix_backward(const Stream& stream, const HeadInputs& inputs,
                                               const TensorView& grad_out);
void head_compute_mix_backward(const Stream& stream, const HeadInputs& inputs, const TensorView& grad_out,
                               const MixGradients<TensorView>& gradients, const Accumulate& accumulate = {});

/// What specialises the kernels of mixes. aligned: tensors and the rows of logits begin at multiples of 16 bytes.
struct MixForm {
    std::int64_t streams = 4;
    bool aligned = true;
};
Program split_mixes_forward_program(const MixForm& form);
Program split_mixes_backward_program(const MixForm& form);
Program head_compute_mix_forward_program(const MixForm& form);
Program head_compute_mix_backward_program(const MixForm& form);
/// Adds the blocks' sums of `bases` and `scales` parameters.
Program sum_mix_parts_program(std::int64_t bases, std::int64_t scales, const Accumulate& accumulate);

/// How a Sinkhorn kernel divides. Sums that are surely at least 2⁻²⁴ need no exact division.
struct SinkhornForm {
    std::int64_t streams = 4;
    bool bounded = true;  ///< eps ≥ 2⁻²⁴
    bool aligned = true;  ///< tensors begin at multiples of 16 bytes
};
/// The kernels themselves. repeat of the backward one: 0 keeps the sums in memory, for any number of repeats.
Program sinkhorn_forward_program(const SinkhornForm& form);
Program sinkhorn_backward_program(const SinkhornForm& form, std::int64_t repeat);

}  // namespace tessera::mhc

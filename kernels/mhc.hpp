#pragma once

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"

// Manifold hyper-connections (mHC): the residual of a token is m streams of h channels, 1 ≤ m ≤ 8, h ≥ 1.
//
// Tensors are dense and have any leading axes, whose product is the number of tokens; mixes may have one axis of extent
// 1 at the end. BF16 values are widened exactly, computed with in FP32, and rounded once. Tensors of BF16 that begin at
// multiples of 16 bytes, with h a multiple of 8, are moved fastest. No tokens are success. Errors: UsageError naming
// the argument, before anything is allocated or launched.

namespace tessera::mhc {

/// m copies of each token: x BF16 (…, h) → BF16 (…, m, h), bit for bit.
Tensor expand_forward(const Stream& stream, const TensorView& x, std::int64_t streams = 4);
/// The same into a given tensor, whose extents say m.
void expand_forward(const Stream& stream, const TensorView& x, const TensorView& out);
/// Σ over the streams, in their order, in FP32: grad_out BF16 (…, m, h) → BF16 (…, h).
Tensor expand_backward(const Stream& stream, const TensorView& grad_out);
void expand_backward(const Stream& stream, const TensorView& grad_out, const TensorView& grad_x);

/// What becomes of the gradient of the residual that lies in the given tensor.
enum class Residual : std::uint8_t {
    overwrite,   ///< it is not read
    accumulate,  ///< what is computed is added to it, in FP32, and rounded once
};

/// What a layer reads: out[c] = Σ over i of mix[i] · residual[i][c], an fma chain from 0. residual: BF16 (…, m, h),
/// mix: f32 (…, m); gives BF16 (…, h).
Tensor apply_mix_forward(const Stream& stream, const TensorView& residual, const TensorView& mix);
void apply_mix_forward(const Stream& stream, const TensorView& residual, const TensorView& mix, const TensorView& out);

template <class T>
struct ApplyMixGradients {
    T residual;  ///< bf16 (…, m, h)
    T mix;       ///< f32 (…, m)
};
/// residual[i][c] = fma(mix[i], g[c], what was there or 0); mix[i] = Σ over c of g[c] · residual[i][c], with g the
/// gradient of the result, BF16 (…, h).
ApplyMixGradients<Tensor> apply_mix_backward(const Stream& stream, const TensorView& residual, const TensorView& mix,
                                             const TensorView& grad_out);
void apply_mix_backward(const Stream& stream, const TensorView& residual, const TensorView& mix,
                        const TensorView& grad_out, const ApplyMixGradients<TensorView>& gradients,
                        Residual mode = Residual::overwrite);

struct PostInputs {
    TensorView y;         ///< bf16 (…, h): what the layer gave
    TensorView residual;  ///< bf16 (…, m, h)
    TensorView post;      ///< f32 (…, m)
    TensorView comb;      ///< f32 (…, m, m): from stream i to stream o
};
/// The next residual: out[o][c] = post[o] · y[c] + Σ over i of comb[i][o] · residual[i][c], as
/// fma(post, y, comb[0] · residual[0]) and then an fma chain over i = 1 … Gives BF16 (…, m, h).
Tensor post_forward(const Stream& stream, const PostInputs& inputs);
void post_forward(const Stream& stream, const PostInputs& inputs, const TensorView& out);

template <class T>
struct PostGradients {
    T y;         ///< bf16 (…, h): Σ over o of post[o] · g[o][c]
    T residual;  ///< bf16 (…, m, h): Σ over o of comb[i][o] · g[o][c], after what was there or 0
    T post;      ///< f32 (…, m): Σ over c of y[c] · g[o][c]
    T comb;      ///< f32 (…, m, m): Σ over c of residual[i][c] · g[o][c]
};
/// Sums over o are fma chains in ascending order. grad_out: BF16 (…, m, h).
PostGradients<Tensor> post_backward(const Stream& stream, const PostInputs& inputs, const TensorView& grad_out);
void post_backward(const Stream& stream, const PostInputs& inputs, const TensorView& grad_out,
                   const PostGradients<TensorView>& gradients, Residual mode = Residual::overwrite);

/// What specialises a kernel. aligned: all tensors of BF16 begin at multiples of 16 bytes.
struct StreamsForm {
    std::int64_t streams = 4, hidden = 7168;
    bool aligned = true;
    Residual residual = Residual::overwrite;
};
/// The kernels themselves.
Program expand_forward_program(const StreamsForm& form);
Program expand_backward_program(const StreamsForm& form);
Program apply_mix_forward_program(const StreamsForm& form);
Program apply_mix_backward_program(const StreamsForm& form);
Program post_forward_program(const StreamsForm& form);
Program post_backward_program(const StreamsForm& form);

}  // namespace tessera::mhc

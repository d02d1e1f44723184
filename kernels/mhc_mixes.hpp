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
    std::int64_t repeat = 10;  ///< ≥ 1: how often rows and columns are normalised
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
/// Many repeats (from 12 on at m = 4) take memory of the stream for the sums in between.
Tensor sinkhorn_backward(const Stream& stream, const TensorView& logits, const TensorView& grad_out,
                         const SinkhornOptions& options = {});
void sinkhorn_backward(const Stream& stream, const TensorView& logits, const TensorView& grad_out,
                       const TensorView& grad_logits, const SinkhornOptions& options = {});

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

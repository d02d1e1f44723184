#pragma once

#include "kernels/mhc.hpp"

// Manifold hyper-connections (mHC): the logits of a token's mixes, from its whole residual.
//
// A token's residual of m streams of h channels is one row of K = m · h values; 1 ≤ m ≤ 4, K a multiple of 64. Tensors
// are dense and have any leading axes, whose product is the number of tokens; BF16 tensors begin at multiples of 16
// bytes. The products run on tensor cores, with the weights rounded to TF32 (to nearest, ties away from 0) and sums in
// FP32. No tokens are success: gradients of parameters are then 0. Errors: UsageError naming the argument, before
// anything is allocated or launched.

namespace tessera::mhc {

struct NormFnInputs {
    TensorView residual;  ///< bf16 (…, m, h)
    TensorView fn;        ///< f32 (J, K): a row for each logit, J from 1 to 24
};
struct NormFnOptions {
    float eps = 1e-6f;        ///< ≥ 0: added to the mean square
    std::int64_t splits = 0;  ///< parts of K that are summed apart, 1 … 64; 0: chosen from the shape
};

/// What the backward pass needs of the forward one.
template <class T>
struct NormFnSaved {
    T fn;          ///< f32 (J, K): fn, rounded to TF32
    T products;    ///< f32 (…, J): Σ over k of residual · fn
    T square_sum;  ///< f32 (…): Σ over k of residual²
};
template <class T>
struct NormFn {
    T logits;  ///< f32 (…, J)
    NormFnSaved<T> saved;
};
/// logits[j] = products[j] / √(square_sum / K + eps).
NormFn<Tensor> norm_fn_forward(const Stream& stream, const NormFnInputs& inputs, const NormFnOptions& options = {});
void norm_fn_forward(const Stream& stream, const NormFnInputs& inputs, const NormFn<TensorView>& out,
                     const NormFnOptions& options = {});

template <class T>
struct NormFnGradients {
    T residual;  ///< bf16 (…, m, h)
    T fn;        ///< f32 (J, K): that of the rounded weights, which passes straight through the rounding
};
/// From the gradient of the logits, f32 (…, J). eps is the forward's. The gradient of the residual is added to what its
/// tensor holds if `mode` says so, that of fn if `accumulate_fn` does.
NormFnGradients<Tensor> norm_fn_backward(const Stream& stream, const TensorView& residual,
                                         const NormFnSaved<TensorView>& saved, const TensorView& grad_logits,
                                         const NormFnOptions& options = {});
void norm_fn_backward(const Stream& stream, const TensorView& residual, const NormFnSaved<TensorView>& saved,
                      const TensorView& grad_logits, const NormFnGradients<TensorView>& gradients,
                      const NormFnOptions& options = {}, Residual mode = Residual::overwrite,
                      bool accumulate_fn = false);

/// The weights of the norm merged into fn: fn[j][k] · weight[k]. fn: f32 (J, K), weight: f32 (K).
Tensor merge_norm_weight_forward(const Stream& stream, const TensorView& fn, const TensorView& weight);
void merge_norm_weight_forward(const Stream& stream, const TensorView& fn, const TensorView& weight,
                               const TensorView& out);
template <class T>
struct MergeGradients {
    T fn;      ///< f32 (J, K): fma(g, weight, what was there or 0)
    T weight;  ///< f32 (K): what was there or 0, plus Σ over j, ascending, of g · fn as an fma chain
};
struct AccumulateMerge {
    bool fn = false, weight = false;
};
/// From g, the gradient of the merged weights, f32 (J, K).
MergeGradients<Tensor> merge_norm_weight_backward(const Stream& stream, const TensorView& fn, const TensorView& weight,
                                                  const TensorView& grad_out);
void merge_norm_weight_backward(const Stream& stream, const TensorView& fn, const TensorView& weight,
                                const TensorView& grad_out, const MergeGradients<TensorView>& gradients,
                                const AccumulateMerge& accumulate = {});

struct PreInputs {
    TensorView residual;  ///< bf16 (…, m, h)
    TensorView fn;        ///< f32 (J, K) with J = m · (m + 2), merged with the norm's weight if there is one
    TensorView scale;     ///< f32 (3)
    TensorView base;      ///< f32 (J)
};
struct PreOptions {
    float norm_eps = 1e-6f, pre_eps = 1e-6f, sinkhorn_eps = 1e-6f;  ///< each ≥ 0
    float post_mult = 1.0f;
    std::int64_t repeat = 10;  ///< of Sinkhorn, 1 … 2^16
    std::int64_t splits = 0;   ///< as in NormFnOptions
};
template <class T>
struct Pre {
    T post;  ///< f32 (…, m)
    T comb;  ///< f32 (…, m, m), after Sinkhorn
    T u;     ///< bf16 (…, h): what the layer reads
};
/// For inference: norm_fn, split_mixes, sinkhorn and apply_mix in two launches, with the bits of the four.
Pre<Tensor> pre_big_fuse(const Stream& stream, const PreInputs& inputs, const PreOptions& options = {});
void pre_big_fuse(const Stream& stream, const PreInputs& inputs, const Pre<TensorView>& out,
                  const PreOptions& options = {});

/// What specialises the products. columns: J; inner: K; rounded: fn is rounded to TF32 already.
struct NormForm {
    std::int64_t columns = 24, inner = 28672;
    bool rounded = true;
    bool accumulate = false;  ///< backward: into the residual's gradient
};
/// residual (n, K) · fnᵀ and the sums of squares, apart for each split of K: products (S, n, J), squares (S, n). Split
/// s has the blocks of 128 from ⌊s · nb / S⌋ to ⌊(s + 1) · nb / S⌋ of the nb = ⌈K / 128⌉.
Program norm_product_program(const NormForm& form);
/// The same from the halves of fn, bf16 (2 J, K): rows j and J + j add up to row j, rounded to TF32; blocks of 256
/// of K. On SM90 tensor cores read both operands in shared memory; there it takes as long as the former, so that
/// nothing calls it but the bench.
Program norm_product_halves_program(const NormForm& form);
/// grad_residual (n, K) += or = d_products · fn + 2 · residual · d_square_sum; grad_fn parts (P, J, K), of which part p
/// has the tokens from ⌊p · nb / P⌋ to ⌊(p + 1) · nb / P⌋ of the nb = ⌈n / 16⌉ blocks of 16.
Program norm_product_backward_program(const NormForm& form);

/// at_once: splits that are loaded together; aligned: all tensors of logits begin at multiples of 16 bytes.
struct LogitsForm {
    std::int64_t columns = 24, at_once = 1;
    bool aligned = true;
};
/// The best at_once of so many splits.
std::int64_t reduce_at_once(std::int64_t splits);
/// From the splits' products and squares: logits, and their sums.
Program norm_reduce_program(const LogitsForm& form);
/// From the gradient of the logits those of the products, rounded to TF32, and of the sum of squares.
Program norm_backward_reduce_program(const LogitsForm& form);
Program round_weights_program();
/// From fn its halves; rounded: and fn rounded to TF32.
Program halve_weights_program(bool rounded);
Program sum_weight_parts_program(bool accumulate);
Program merge_norm_weight_program(std::int64_t columns, bool aligned);
Program merge_norm_weight_backward_program(std::int64_t columns, bool aligned, const AccumulateMerge& accumulate);

/// The second kernel of pre_big_fuse. at_once: splits that are loaded together; bounded: see SinkhornForm; aligned:
/// post and comb begin at multiples of 16 bytes.
struct PreMixForm {
    std::int64_t streams = 4, hidden = 7168, at_once = 1;
    int threads = 64;
    bool bounded = true, aligned = true;
};
/// The best at_once of so many splits.
std::int64_t pre_mix_at_once(std::int64_t streams, std::int64_t splits);
Program pre_mix_program(const PreMixForm& form);

}  // namespace tessera::mhc

#pragma once

#include <utility>

#include "kernels/mhc_norm.hpp"

// The launches that the entries of norm_fn and pre_big_fuse are made of. Tensors are checked already.

namespace tessera::mhc {

namespace names {
inline constexpr const char* product = "mhc_norm_product";
inline constexpr const char* product_backward = "mhc_norm_product_backward";
inline constexpr const char* norm_reduce = "mhc_norm_reduce";
inline constexpr const char* norm_backward_reduce = "mhc_norm_backward_reduce";
inline constexpr const char* product_halves = "mhc_norm_product_halves";
inline constexpr const char* round_weights = "mhc_round_weights";
inline constexpr const char* halve_weights = "mhc_halve_weights";
inline constexpr const char* sum_weight_parts = "mhc_sum_weight_parts";
inline constexpr const char* merge = "mhc_merge_norm_weight";
inline constexpr const char* merge_backward = "mhc_merge_norm_weight_backward";
}  // namespace names

/// What the forward product makes of (n, K) and (J, K): products (S, n, J), squares (S, n).
struct SplitProducts {
    Tensor products, squares;
    SplitProducts(Tensor p, Tensor s) : products(std::move(p)), squares(std::move(s)) {}
    SplitProducts(const Stream& stream, std::int64_t splits, std::int64_t tokens, std::int64_t columns)
        : products(Tensor::empty(stream, f32, {splits, tokens, columns})),
          squares(Tensor::empty(stream, f32, {splits, tokens})) {}
};
/// rounded: fn is rounded to TF32.
void launch_norm_product(const Stream& stream, const TensorView& residual, const TensorView& fn, bool rounded,
                         const SplitProducts& out);
/// halves: (2 J, K).
void launch_norm_product_halves(const Stream& stream, const TensorView& residual, const TensorView& halves,
                                const SplitProducts& out);
/// logits and products are (n, J), square_sum (n).
void launch_norm_reduce(const Stream& stream, const SplitProducts& parts, std::int64_t inner, float eps,
                        const TensorView& logits, const TensorView& products, const TensorView& square_sum);

/// Mixes from the products, and the streams mixed. residual: (n, K); of out, post (n, m), comb (n, m, m) and u (n, h).
void launch_pre_mix(const Stream& stream, const SplitProducts& parts, const TensorView& residual, const PreInputs& in,
                    const Pre<TensorView>& out, const PreOptions& options);

/// Gradients of products, rounded to TF32 (n, J), and of square_sum (n).
struct ProductGradients {
    Tensor products, square_sum;
    ProductGradients(Tensor p, Tensor s) : products(std::move(p)), square_sum(std::move(s)) {}
    ProductGradients(const Stream& stream, std::int64_t tokens, std::int64_t columns)
        : products(Tensor::empty(stream, f32, {tokens, columns})), square_sum(Tensor::empty(stream, f32, {tokens})) {}
};
void launch_norm_backward_reduce(const Stream& stream, std::int64_t inner, float eps, const TensorView& grad_logits,
                                 const TensorView& products, const TensorView& square_sum, const ProductGradients& out);
/// Of (n, K) and (J, K), with the sum over the parts of the tokens.
void launch_norm_product_backward(const Stream& stream, const TensorView& residual, const TensorView& fn,
                                  const ProductGradients& grad, const TensorView& grad_residual, Residual mode,
                                  const TensorView& grad_fn, bool accumulate_fn);

/// All of a gradient of fn.
void launch_zero_weights(const Stream& stream, const TensorView& grad_fn);
void launch_round_weights(const Stream& stream, const TensorView& fn, const TensorView& rounded);
/// The halves of fn, (2 J, K); rounded: null if nobody needs fn rounded to TF32.
Tensor launch_halve_weights(const Stream& stream, const TensorView& fn, const TensorView* rounded);

}  // namespace tessera::mhc

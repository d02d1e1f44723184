#include "kernels/mhc/norm_arguments.hpp"
#include "kernels/mhc/norm_kernels.hpp"

namespace tessera::mhc {

namespace {

constexpr const char* forward = "mhc_norm_fn_forward";
constexpr const char* backward = "mhc_norm_fn_backward";

// ---- forward -------------------------------------------------------------------------------------------------------

struct Forward {
    ResidualRows residual;
    std::int64_t columns, splits;
    TensorView fn;
    float eps;
};
Forward check(const Stream& stream, const NormFnInputs& in, const NormFnOptions& o) {
    const ResidualRows r = residual_rows(forward, "residual", stream, in.residual);
    const std::int64_t columns = weight_rows(forward, "fn", stream, in.fn, r.inner);
    check_eps(forward, "eps", o.eps);
    return {r, columns, checked_splits(forward, stream, o.splits, r), in.fn, o.eps};
}

void launch(const Stream& stream, const Forward& c, const NormFn<TensorView>& out) {
    const std::int64_t tokens = c.residual.tokens;
    const TensorView logits = per_token(forward, "out.logits", stream, out.logits, f32, tokens, {c.columns});
    weight_rows(forward, "out.saved.fn", stream,
                parameter(forward, "out.saved.fn", stream, out.saved.fn, f32, c.fn.extents), c.residual.inner);
    const TensorView products =
        per_token(forward, "out.saved.products", stream, out.saved.products, f32, tokens, {c.columns});
    const TensorView square_sum =
        per_token(forward, "out.saved.square_sum", stream, out.saved.square_sum, f32, tokens, {});
    launch_round_weights(stream, c.fn, out.saved.fn);
    if (tokens == 0) return;
    const SplitProducts parts(stream, c.splits, tokens, c.columns);
    launch_norm_product(stream, c.residual.rows, out.saved.fn, true, parts);
    launch_norm_reduce(stream, parts, c.residual.inner, c.eps, logits, products, square_sum);
}

// ---- backward ------------------------------------------------------------------------------------------------------

struct Backward {
    ResidualRows residual;
    std::int64_t columns;
    NormFnSaved<TensorView> saved;
    TensorView grad_logits;
    float eps;
};
Backward check(const Stream& stream, const TensorView& residual, const NormFnSaved<TensorView>& saved,
               const TensorView& grad_logits, const NormFnOptions& o) {
    const ResidualRows r = residual_rows(backward, "residual", stream, residual);
    const std::int64_t columns = weight_rows(backward, "saved.fn", stream, saved.fn, r.inner);
    check_eps(backward, "eps", o.eps);
    return {r,
            columns,
            {saved.fn, per_token(backward, "saved.products", stream, saved.products, f32, r.tokens, {columns}),
             per_token(backward, "saved.square_sum", stream, saved.square_sum, f32, r.tokens, {})},
            per_token(backward, "grad_logits", stream, grad_logits, f32, r.tokens, {columns}),
            o.eps};
}

void launch(const Stream& stream, const Backward& c, const NormFnGradients<TensorView>& to, Residual mode,
            bool accumulate_fn) {
    const TensorView grad_residual = like_rows(backward, "gradients.residual", stream, to.residual, c.residual);
    const TensorView grad_fn = parameter(backward, "gradients.fn", stream, to.fn, f32, c.saved.fn.extents);
    check_aligned(backward, "gradients.fn", grad_fn);
    if (c.residual.tokens == 0) {
        if (!accumulate_fn) launch_zero_weights(stream, grad_fn);
        return;
    }
    const ProductGradients grad(stream, c.residual.tokens, c.columns);
    launch_norm_backward_reduce(stream, c.residual.inner, c.eps, c.grad_logits, c.saved.products, c.saved.square_sum,
                                grad);
    launch_norm_product_backward(stream, c.residual.rows, c.saved.fn, grad, grad_residual, mode, grad_fn,
                                 accumulate_fn);
}

}  // namespace

void norm_fn_forward(const Stream& stream, const NormFnInputs& inputs, const NormFn<TensorView>& out,
                     const NormFnOptions& options) {
    launch(stream, check(stream, inputs, options), out);
}

NormFn<Tensor> norm_fn_forward(const Stream& stream, const NormFnInputs& inputs, const NormFnOptions& options) {
    const Forward c = check(stream, inputs, options);
    const Shape logits = with_tail(inputs.residual.extents, 2, {c.columns});
    NormFn<Tensor> out{Tensor::empty(stream, f32, logits),
                       {Tensor::empty(stream, f32, c.fn.extents), Tensor::empty(stream, f32, logits),
                        Tensor::empty(stream, f32, with_tail(logits, 1, {}))}};
    launch(stream, c, {out.logits, {out.saved.fn, out.saved.products, out.saved.square_sum}});
    return out;
}

void norm_fn_backward(const Stream& stream, const TensorView& residual, const NormFnSaved<TensorView>& saved,
                      const TensorView& grad_logits, const NormFnGradients<TensorView>& gradients,
                      const NormFnOptions& options, Residual mode, bool accumulate_fn) {
    launch(stream, check(stream, residual, saved, grad_logits, options), gradients, mode, accumulate_fn);
}

NormFnGradients<Tensor> norm_fn_backward(const Stream& stream, const TensorView& residual,
                                         const NormFnSaved<TensorView>& saved, const TensorView& grad_logits,
                                         const NormFnOptions& options) {
    const Backward c = check(stream, residual, saved, grad_logits, options);
    NormFnGradients<Tensor> result{Tensor::empty(stream, bf16, residual.extents),
                                   Tensor::empty(stream, f32, saved.fn.extents)};
    launch(stream, c, {result.residual, result.fn}, Residual::overwrite, false);
    return result;
}

}  // namespace tessera::mhc

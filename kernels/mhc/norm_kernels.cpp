#include "kernels/mhc/norm_kernels.hpp"

#include "kernels/mhc/arguments.hpp"
#include "kernels/mhc/norm_plan.hpp"
#include "kernels/mhc/norm_rows.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::mhc {

namespace {

/// Dense data as one axis.
TensorView flat(const TensorView& t) {
    TensorView result = t;
    result.extents = {t.count()}, result.strides = {1};
    return result;
}

/// A matrix (n, K) as (K / 32 or 64, n, …): rows of 128 bytes.
TensorView in_lines(const TensorView& t) {
    const std::int64_t line = 128 * 8 / bits_of(t.element);
    TensorView result = t;
    result.extents = {t.extents[1] / line, t.extents[0], line}, result.strides = {line, t.extents[1], 1};
    return result;
}

/// The kernel is started while the one ahead of it in the stream, which made its inputs, still runs.
constexpr LaunchOptions early{.dependent = true};

/// grad_fn += or = the sum over the first axis of parts (P, J, K).
void launch_sum(const Stream& stream, const TensorView& parts, const TensorView& grad_fn, bool accumulate) {
    TensorView rows = parts;
    rows.extents = {parts.extents[0], grad_fn.count()}, rows.strides = {grad_fn.count(), 1};
    Engine::of(stream)
        .kernel(stream, KernelId(names::sum_weight_parts, {accumulate}),
                [&] { return sum_weight_parts_program(accumulate); })
        .launch(stream, {rows, flat(grad_fn)}, {}, early);
}

}  // namespace

void launch_norm_product(const Stream& stream, const TensorView& residual, const TensorView& fn, bool rounded,
                         const SplitProducts& out) {
    const NormForm form{fn.extents[0], fn.extents[1], rounded, false};
    Engine::of(stream)
        .kernel(stream, KernelId(names::product, {form.columns, form.inner, form.rounded}),
                [&] { return norm_product_program(form); })
        .launch(stream, {in_lines(residual), in_lines(fn), out.products, out.squares});
}

void launch_norm_product_halves(const Stream& stream, const TensorView& residual, const TensorView& halves,
                                const SplitProducts& out) {
    const NormForm form{halves.extents[0] / 2, halves.extents[1], true, false};
    Engine::of(stream)
        .kernel(stream, KernelId(names::product_halves, {form.columns, form.inner}),
                [&] { return norm_product_halves_program(form); })
        .launch(stream, {residual, halves, out.products, out.squares});
}

void launch_norm_reduce(const Stream& stream, const SplitProducts& parts, std::int64_t inner, float eps,
                        const TensorView& logits, const TensorView& products, const TensorView& square_sum) {
    const LogitsForm form{logits.extents[1], reduce_at_once(parts.squares.extents()[0]), aligned({&logits, &products})};
    Engine::of(stream)
        .kernel(stream, KernelId(names::norm_reduce, {form.columns, form.at_once, form.aligned}),
                [&] { return norm_reduce_program(form); })
        .launch(stream, {parts.products, parts.squares, logits, products, square_sum},
                {Scalar("eps", eps), Scalar("inner", static_cast<float>(inner))}, early);
}

void launch_norm_backward_reduce(const Stream& stream, std::int64_t inner, float eps, const TensorView& grad_logits,
                                 const TensorView& products, const TensorView& square_sum,
                                 const ProductGradients& out) {
    const LogitsForm form{grad_logits.extents[1], 1, aligned({&grad_logits, &products})};
    const auto eps_inner = static_cast<float>(static_cast<double>(eps) * static_cast<double>(inner));
    Engine::of(stream)
        .kernel(stream, KernelId(names::norm_backward_reduce, {form.columns, form.aligned}),
                [&] { return norm_backward_reduce_program(form); })
        .launch(stream, {grad_logits, products, square_sum, out.products, out.square_sum},
                {Scalar("eps", eps), Scalar("inner", static_cast<float>(inner)), Scalar("eps_inner", eps_inner)});
}

void launch_norm_product_backward(const Stream& stream, const TensorView& residual, const TensorView& fn,
                                  const ProductGradients& grad, const TensorView& grad_residual, Residual mode,
                                  const TensorView& grad_fn, bool accumulate_fn) {
    const std::int64_t tokens = residual.extents[0];
    const NormForm form{fn.extents[0], fn.extents[1], true, mode == Residual::accumulate};
    const std::int64_t parts = norm_parts(tokens, form.inner, stream.device().target().multiprocessors);
    const bool direct = parts == 1 && !accumulate_fn;  // the only part is the gradient
    TensorView sums = grad_fn;
    Tensor owner;
    if (!direct) sums = owner = Tensor::empty(stream, f32, {parts, form.columns, form.inner});
    sums.extents = {parts, form.columns, form.inner}, sums.strides = dense_strides(sums.extents);
    Engine::of(stream)
        .kernel(stream, KernelId(names::product_backward, {form.columns, form.inner, form.accumulate}),
                [&] { return norm_product_backward_program(form); })
        .launch(stream, {residual, fn, grad.products, grad.square_sum, grad_residual, sums});
    if (!direct) launch_sum(stream, sums, grad_fn, accumulate_fn);
}

void launch_zero_weights(const Stream& stream, const TensorView& grad_fn) {
    const Tensor none = Tensor::empty(stream, f32, {0, grad_fn.extents[0], grad_fn.extents[1]});
    launch_sum(stream, none, grad_fn, false);
}

void launch_round_weights(const Stream& stream, const TensorView& fn, const TensorView& rounded) {
    Engine::of(stream)
        .kernel(stream, KernelId(names::round_weights, {}), [] { return round_weights_program(); })
        .launch(stream, {flat(fn), flat(rounded)});
}

Tensor launch_halve_weights(const Stream& stream, const TensorView& fn, const TensorView* rounded) {
    Tensor halves = Tensor::empty(stream, bf16, {2 * fn.extents[0], fn.extents[1]});
    TensorView both = halves;
    both.extents = {2, fn.count()}, both.strides = {fn.count(), 1};
    const CompiledKernel& kernel =
        Engine::of(stream).kernel(stream, KernelId(names::halve_weights, {rounded != nullptr}),
                                  [&] { return halve_weights_program(rounded != nullptr); });
    rounded ? kernel.launch(stream, {flat(fn), both, flat(*rounded)}) : kernel.launch(stream, {flat(fn), both});
    return halves;
}

}  // namespace tessera::mhc

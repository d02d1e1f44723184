#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/check.hpp"
#include "kernels/mhc/arguments.hpp"
#include "kernels/mhc/norm_kernels.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::mhc {

namespace {

constexpr const char* forward = "mhc_merge_norm_weight_forward";
constexpr const char* backward = "mhc_merge_norm_weight_backward";

void check(const char* function, const Stream& stream, const TensorView& fn, const TensorView& weight) {
    if (fn.rank() != 2 || fn.extents[0] < 1 || fn.extents[1] < 1)
        throw UsageError(
            fmt::format("{}: fn has extents {}; it must be (J, K), not empty", function, text_of(fn.extents)));
    check_dense(function, "fn", stream, fn, f32, fn.extents);
    check_dense(function, "weight", stream, weight, f32, {fn.extents[1]});
}

bool wide(std::initializer_list<const TensorView*> tensors, const TensorView& fn) {
    return aligned(tensors) && fn.extents[1] % 4 == 0;
}

void launch_forward(const Stream& stream, const TensorView& fn, const TensorView& weight, const TensorView& out) {
    check_dense(forward, "out", stream, out, f32, fn.extents);
    const bool all_aligned = wide({&fn, &weight, &out}, fn);
    Engine::of(stream)
        .kernel(stream, KernelId(names::merge, {fn.extents[0], all_aligned}),
                [&] { return merge_norm_weight_program(fn.extents[0], all_aligned); })
        .launch(stream, {fn, weight, out});
}

void launch_backward(const Stream& stream, const TensorView& fn, const TensorView& weight, const TensorView& grad_out,
                     const MergeGradients<TensorView>& to, const AccumulateMerge& accumulate) {
    check_dense(backward, "gradients.fn", stream, to.fn, f32, fn.extents);
    check_dense(backward, "gradients.weight", stream, to.weight, f32, weight.extents);
    const bool all_aligned = wide({&fn, &weight, &grad_out, &to.fn, &to.weight}, fn);
    Engine::of(stream)
        .kernel(stream, KernelId(names::merge_backward, {fn.extents[0], all_aligned, accumulate.fn, accumulate.weight}),
                [&] { return merge_norm_weight_backward_program(fn.extents[0], all_aligned, accumulate); })
        .launch(stream, {fn, weight, grad_out, to.fn, to.weight});
}

}  // namespace

void merge_norm_weight_forward(const Stream& stream, const TensorView& fn, const TensorView& weight,
                               const TensorView& out) {
    check(forward, stream, fn, weight);
    launch_forward(stream, fn, weight, out);
}

Tensor merge_norm_weight_forward(const Stream& stream, const TensorView& fn, const TensorView& weight) {
    check(forward, stream, fn, weight);
    Tensor out = Tensor::empty(stream, f32, fn.extents);
    launch_forward(stream, fn, weight, out);
    return out;
}

void merge_norm_weight_backward(const Stream& stream, const TensorView& fn, const TensorView& weight,
                                const TensorView& grad_out, const MergeGradients<TensorView>& gradients,
                                const AccumulateMerge& accumulate) {
    check(backward, stream, fn, weight);
    check_dense(backward, "grad_out", stream, grad_out, f32, fn.extents);
    launch_backward(stream, fn, weight, grad_out, gradients, accumulate);
}

MergeGradients<Tensor> merge_norm_weight_backward(const Stream& stream, const TensorView& fn, const TensorView& weight,
                                                  const TensorView& grad_out) {
    check(backward, stream, fn, weight);
    check_dense(backward, "grad_out", stream, grad_out, f32, fn.extents);
    MergeGradients<Tensor> result{Tensor::empty(stream, f32, fn.extents), Tensor::empty(stream, f32, weight.extents)};
    launch_backward(stream, fn, weight, grad_out, {result.fn, result.weight}, {});
    return result;
}

}  // namespace tessera::mhc

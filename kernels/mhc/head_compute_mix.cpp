#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/mhc/mix_rows.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::mhc {

namespace {

constexpr const char* forward = "mhc_head_compute_mix_forward";
constexpr const char* backward = "mhc_head_compute_mix_backward";

struct Checked {
    std::int64_t tokens, m;
    TensorView logits, scale, base;
};
/// One number, as (1).
TensorView number(const char* function, const char* name, const Stream& stream, const TensorView& t) {
    if (t.rank() > 0) return parameter(function, name, stream, t, f32, {1});
    parameter(function, name, stream, t, f32, {});
    TensorView result = t;
    result.extents = {1}, result.strides = {1};
    return result;
}
Checked check(const char* function, const Stream& stream, const HeadInputs& in) {
    const std::int64_t tokens = tokens_of(function, "logits", in.logits, 1), m = in.logits.extents.back();
    check_streams(function, m);
    return {tokens, m, strided_rows(function, "logits", stream, in.logits, tokens, m),
            number(function, "scale", stream, in.scale), parameter(function, "base", stream, in.base, f32, {m})};
}
bool wide(const Checked& c, const TensorView& t) {
    return aligned({&c.logits, &c.base, &t}) && c.logits.strides[0] % 4 == 0;
}

void launch_forward(const Stream& stream, const Checked& c, const TensorView& out, float pre_eps) {
    const TensorView to = per_token(forward, "out", stream, out, f32, c.tokens, {c.m});
    if (c.tokens == 0) return;
    const MixForm form{c.m, wide(c, to)};
    Engine::of(stream)
        .kernel(stream, KernelId(forward, {form.streams, form.aligned}),
                [&] { return head_compute_mix_forward_program(form); })
        .launch(stream, {c.logits, c.scale, c.base, to}, {Scalar("pre_eps", pre_eps)});
}

void launch_backward(const Stream& stream, const Checked& c, const TensorView& grad_out,
                     const MixGradients<TensorView>& to, const Accumulate& accumulate) {
    const TensorView g = per_token(backward, "grad_out", stream, grad_out, f32, c.tokens, {c.m});
    const TensorView dlogits = per_token(backward, "gradients.logits", stream, to.logits, f32, c.tokens, {c.m});
    const TensorView dscale = number(backward, "gradients.scale", stream, to.scale);
    parameter(backward, "gradients.base", stream, to.base, f32, {c.m});
    const Tensor parts = Tensor::empty(stream, f32, {mix_parts(c.tokens), c.m + 1});
    if (c.tokens > 0) {
        const MixForm form{c.m, wide(c, g) && aligned({&dlogits})};
        Engine::of(stream)
            .kernel(stream, KernelId(backward, {form.streams, form.aligned}),
                    [&] { return head_compute_mix_backward_program(form); })
            .launch(stream, {c.logits, c.scale, c.base, g, dlogits, parts});
    }
    launch_mix_sum(stream, parts, to.base, dscale, accumulate);
}

}  // namespace

Program head_compute_mix_forward_program(const MixForm& form) {
    return record(forward, [=](Kernel& k) {
        const MixParameters in(k, form.streams, 1, form.aligned);
        const auto out = k.output<f32>("out", {in.tokens, form.streams}, in.options);
        const auto pre_eps = k.scalar<f32>("pre_eps");
        k.threads(mix_threads);
        const auto [tile] = k.grid(ceil_div(in.tokens, mix_rows));
        const Section section(in, 0, form.streams, 0);
        store(section.piece(out, tile), sigmoid(section.affine(tile)) + pre_eps);
    });
}

Program head_compute_mix_backward_program(const MixForm& form) {
    return record(backward, [=](Kernel& k) {
        const std::int64_t m = form.streams;
        const MixParameters in(k, m, 1, form.aligned);
        const auto grad = k.input<f32>("grad_out", {in.tokens, m}, in.options);
        const auto grad_logits = k.output<f32>("grad_logits", {in.tokens, m}, in.options);
        const Dim count = k.dim("parts");
        const auto parts = k.output<f32>("part_sums", {count, m + 1}, {.align = 4});
        k.threads(mix_threads);
        const auto [part] = k.grid(count);
        const Section section(in, 0, m, 0);
        SectionSums sums(k, section);
        k.serial((ceil_div(in.tokens, mix_rows) + count - 1) / count, [&](Index step) {
            const Index tile = step * count + part;
            const auto x = section.logits(tile);
            const auto p = sigmoid(section.affine(x));
            sums.add(p * (1.0f - p) * load(section.piece(grad, tile)), x, grad_logits, tile);
        });
        sums.store_part(parts, part, m, 0);
    });
}

void head_compute_mix_forward(const Stream& stream, const HeadInputs& inputs, const TensorView& out, float pre_eps) {
    check_eps(forward, "pre_eps", pre_eps);
    launch_forward(stream, check(forward, stream, inputs), out, pre_eps);
}

Tensor head_compute_mix_forward(const Stream& stream, const HeadInputs& inputs, float pre_eps) {
    check_eps(forward, "pre_eps", pre_eps);
    const Checked c = check(forward, stream, inputs);
    Tensor out = Tensor::empty(stream, f32, inputs.logits.extents);
    launch_forward(stream, c, out, pre_eps);
    return out;
}

void head_compute_mix_backward(const Stream& stream, const HeadInputs& inputs, const TensorView& grad_out,
                               const MixGradients<TensorView>& gradients, const Accumulate& accumulate) {
    launch_backward(stream, check(backward, stream, inputs), grad_out, gradients, accumulate);
}

MixGradients<Tensor> head_compute_mix_backward(const Stream& stream, const HeadInputs& inputs,
                                               const TensorView& grad_out) {
    const Checked c = check(backward, stream, inputs);
    per_token(backward, "grad_out", stream, grad_out, f32, c.tokens, {c.m});
    MixGradients<Tensor> result{Tensor::empty(stream, f32, inputs.logits.extents),
                                Tensor::empty(stream, f32, inputs.scale.extents), Tensor::empty(stream, f32, {c.m})};
    launch_backward(stream, c, grad_out, MixGradients<TensorView>{result.logits, result.scale, result.base}, {});
    return result;
}

}  // namespace tessera::mhc

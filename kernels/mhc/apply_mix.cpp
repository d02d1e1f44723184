#include <vector>

#include "kernels/mhc/arguments.hpp"
#include "kernels/mhc/columns.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::mhc {

namespace {

constexpr const char* forward = "mhc_apply_mix_forward";
constexpr const char* backward = "mhc_apply_mix_backward";

struct Checked {
    std::int64_t tokens, m, h;
    TensorView residual, mix;
};
Checked check(const char* function, const Stream& stream, const TensorView& residual, const TensorView& mix) {
    const std::int64_t tokens = tokens_of(function, "residual", residual, 2);
    const std::int64_t m = residual.extents[residual.rank() - 2], h = residual.extents.back();
    check_streams(function, m);
    check_hidden(function, h);
    return {tokens, m, h, per_token(function, "residual", stream, residual, bf16, tokens, {m, h}),
            per_token(function, "mix", stream, mix, f32, tokens, {m})};
}

void launch_forward(const Stream& stream, const Checked& c, const TensorView& out) {
    const TensorView to = per_token(forward, "out", stream, out, bf16, c.tokens, {c.h});
    if (c.tokens == 0) return;
    const StreamsForm form{c.m, c.h, aligned({&c.residual, &to})};
    Engine::of(stream)
        .kernel(stream, KernelId(forward, {form.streams, form.hidden, form.aligned}),
                [&] { return apply_mix_forward_program(form); })
        .launch(stream, {c.residual, c.mix, to});
}

void launch_backward(const Stream& stream, const Checked& c, const TensorView& grad_out,
                     const ApplyMixGradients<TensorView>& to, Residual mode) {
    const TensorView g = per_token(backward, "grad_out", stream, grad_out, bf16, c.tokens, {c.h});
    const TensorView dr = per_token(backward, "gradients.residual", stream, to.residual, bf16, c.tokens, {c.m, c.h});
    const TensorView dmix = per_token(backward, "gradients.mix", stream, to.mix, f32, c.tokens, {c.m});
    if (c.tokens == 0) return;
    const StreamsForm form{c.m, c.h, aligned({&c.residual, &g, &dr}), mode};
    Engine::of(stream)
        .kernel(stream, KernelId(backward, {form.streams, form.hidden, form.aligned, form.residual}),
                [&] { return apply_mix_backward_program(form); })
        .launch(stream, {c.residual, c.mix, g, dr, dmix});
}

}  // namespace

Program apply_mix_forward_program(const StreamsForm& form) {
    return record(forward, [=](Kernel& k) {
        const Columns columns(form);
        const std::int64_t m = form.streams, h = form.hidden, width = columns.width();
        const Dim tokens = k.dim("tokens");
        const auto residual = k.input<bf16>("residual", {tokens, m, h}, columns.options());
        const auto mix = k.input<f32>("mix", {tokens, m}, {.align = 4});
        const auto out = k.output<bf16>("out", {tokens, h}, columns.options());
        k.threads(columns.threads());
        const auto [token, step] = k.grid(tokens, columns.steps());
        std::vector<Value<bf16, 2>> streams;
        for (std::int64_t i = 0; i < m; ++i) streams.push_back(load(residual[token].block({1, width}, {i, step})));
        auto sum = full({1, width}, Value<f32, 0>(0.0f));
        for (std::int64_t i = 0; i < m; ++i)
            sum = fma(cast<f32>(streams[static_cast<std::size_t>(i)]), load(mix[token][i]), sum);
        store(out.block({1, width}, {token, step}), cast<bf16>(sum));
    });
}

Program apply_mix_backward_program(const StreamsForm& form) {
    return record(backward, [=](Kernel& k) {
        const Columns columns(form);
        const std::int64_t m = form.streams, h = form.hidden, width = columns.width();
        const Dim tokens = k.dim("tokens");
        const auto residual = k.input<bf16>("residual", {tokens, m, h}, columns.options());
        const auto mix = k.input<f32>("mix", {tokens, m}, {.align = 4});
        const auto grad = k.input<bf16>("grad_out", {tokens, h}, columns.options());
        const bool adds = form.residual == Residual::accumulate;
        const auto dr = adds ? k.inout<bf16>("grad_residual", {tokens, m, h}, columns.options())
                             : k.output<bf16>("grad_residual", {tokens, m, h}, columns.options());
        const auto dmix = k.output<f32>("grad_mix", {tokens, m}, {.align = 4});
        k.threads(columns.threads());
        const auto [token] = k.grid(tokens);
        const auto weight = load(mix[token].block({m}, {0})).unsqueeze(axis<1>);
        auto sums = k.variable(columns.no_sum(m));
        k.serial(columns.steps(), [&](Index step) {
            const auto g = cast<f32>(load(grad.block({1, width}, {token, step})));
            const auto r = cast<f32>(load(residual[token].block({m, width}, {0, step})));
            auto old = full({m, width}, Value<f32, 0>(0.0f));
            if (adds) old = cast<f32>(load(dr[token].block({m, width}, {0, step})));
            store(dr[token].block({m, width}, {0, step}), cast<bf16>(fma(weight, g, old)));
            sums = sums.get() + columns.thread_sum(r * g);
        });
        store(dmix[token].block({m}, {0}), Columns::total(sums.get()));
    });
}

void apply_mix_forward(const Stream& stream, const TensorView& residual, const TensorView& mix, const TensorView& out) {
    launch_forward(stream, check(forward, stream, residual, mix), out);
}

Tensor apply_mix_forward(const Stream& stream, const TensorView& residual, const TensorView& mix) {
    const Checked c = check(forward, stream, residual, mix);
    Tensor out = Tensor::empty(stream, bf16, with_tail(residual.extents, 2, {c.h}));
    launch_forward(stream, c, out);
    return out;
}

void apply_mix_backward(const Stream& stream, const TensorView& residual, const TensorView& mix,
                        const TensorView& grad_out, const ApplyMixGradients<TensorView>& gradients, Residual mode) {
    launch_backward(stream, check(backward, stream, residual, mix), grad_out, gradients, mode);
}

ApplyMixGradients<Tensor> apply_mix_backward(const Stream& stream, const TensorView& residual, const TensorView& mix,
                                             const TensorView& grad_out) {
    const Checked c = check(backward, stream, residual, mix);
    per_token(backward, "grad_out", stream, grad_out, bf16, c.tokens, {c.h});
    ApplyMixGradients<Tensor> result{Tensor::empty(stream, bf16, residual.extents),
                                     Tensor::empty(stream, f32, mix.extents)};
    launch_backward(stream, c, grad_out, {result.residual, result.mix}, Residual::overwrite);
    return result;
}

}  // namespace tessera::mhc

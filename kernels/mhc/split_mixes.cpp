#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/mhc/mix_rows.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::mhc {

namespace {

constexpr const char* forward = "mhc_split_mixes_forward";
constexpr const char* backward = "mhc_split_mixes_backward";

struct Checked {
    std::int64_t tokens, m, columns;
    TensorView logits, scale, base;
};
Checked check(const char* function, const Stream& stream, const SplitInputs& in, const SplitOptions& o) {
    const std::int64_t tokens = tokens_of(function, "logits", in.logits, 1), columns = in.logits.extents.back();
    std::int64_t m = 1;
    while (m < most_streams && m * (m + 2) < columns) ++m;
    if (m * (m + 2) != columns)
        throw UsageError(fmt::format("{}: logits have {} columns; m streams, 1 ≤ m ≤ {}, have m · (m + 2) of them",
                                     function, columns, most_streams));
    check_eps(function, "pre_eps", o.pre_eps);
    return {tokens,
            m,
            columns,
            strided_rows(function, "logits", stream, in.logits, tokens, columns),
            parameter(function, "scale", stream, in.scale, f32, {3}),
            parameter(function, "base", stream, in.base, f32, {columns})};
}

Mixes<TensorView> check_mixes(const char* function, const Stream& stream, const Checked& c,
                              const Mixes<TensorView>& t) {
    return {per_token(function, "pre", stream, t.pre, f32, c.tokens, {c.m}),
            per_token(function, "post", stream, t.post, f32, c.tokens, {c.m}),
            per_token(function, "comb", stream, t.comb, f32, c.tokens, {c.m, c.m})};
}
/// The matrices as rows.
TensorView rows(const TensorView& comb, const Checked& c) {
    TensorView t = comb;
    t.extents = {c.tokens, c.m * c.m}, t.strides = {c.m * c.m, 1};
    return t;
}
bool wide(const Checked& c, const Mixes<TensorView>& t) {
    return aligned({&c.logits, &c.base, &t.pre, &t.post, &t.comb}) && c.logits.strides[0] % 4 == 0;
}

void launch_forward(const Stream& stream, const Checked& c, const Mixes<TensorView>& out, const SplitOptions& o) {
    const Mixes<TensorView> to = check_mixes(forward, stream, c, out);
    if (c.tokens == 0) return;
    const MixForm form{c.m, wide(c, to)};
    Engine::of(stream)
        .kernel(stream, KernelId(forward, {form.streams, form.aligned}),
                [&] { return split_mixes_forward_program(form); })
        .launch(stream, {c.logits, c.scale, c.base, to.pre, to.post, rows(to.comb, c)},
                {Scalar("post_mult", o.post_mult), Scalar("pre_eps", o.pre_eps)});
}

void check_post_mult(const SplitOptions& o) {
    if (o.post_mult == 0.0f)
        throw UsageError(
            fmt::format("{}: post_mult is 0; the gradient divides by it, so it must be another number", backward));
}

void launch_backward(const Stream& stream, const Checked& c, const TensorView& post, const Mixes<TensorView>& grad_out,
                     const MixGradients<TensorView>& to, const SplitOptions& o, const Accumulate& accumulate) {
    const TensorView saved = per_token(backward, "saved post", stream, post, f32, c.tokens, {c.m});
    const Mixes<TensorView> g = check_mixes(backward, stream, c, grad_out);
    const TensorView dlogits = per_token(backward, "gradients.logits", stream, to.logits, f32, c.tokens, {c.columns});
    parameter(backward, "gradients.scale", stream, to.scale, f32, {3});
    parameter(backward, "gradients.base", stream, to.base, f32, {c.columns});
    const Tensor parts = Tensor::empty(stream, f32, {mix_parts(c.tokens), c.columns + 3});
    if (c.tokens > 0) {
        const MixForm form{c.m, wide(c, g) && aligned({&saved, &dlogits})};
        Engine::of(stream)
            .kernel(stream, KernelId(backward, {form.streams, form.aligned}),
                    [&] { return split_mixes_backward_program(form); })
            .launch(stream, {c.logits, c.scale, c.base, saved, g.pre, g.post, rows(g.comb, c), dlogits, parts},
                    {Scalar("post_mult", o.post_mult)});
    }
    launch_mix_sum(stream, parts, to.base, to.scale, accumulate);
}

}  // namespace

Program split_mixes_forward_program(const MixForm& form) {
    return record(forward, [=](Kernel& k) {
        const std::int64_t m = form.streams;
        const MixParameters in(k, m * (m + 2), 3, form.aligned);
        const auto pre = k.output<f32>("pre", {in.tokens, m}, in.options);
        const auto post = k.output<f32>("post", {in.tokens, m}, in.options);
        const auto comb = k.output<f32>("comb", {in.tokens, m * m}, in.options);
        const auto post_mult = k.scalar<f32>("post_mult"), pre_eps = k.scalar<f32>("pre_eps");
        k.threads(mix_threads);
        const auto [tile] = k.grid(ceil_div(in.tokens, mix_rows));
        const Section first(in, 0, m, 0), second(in, m, m, 1), third(in, 2 * m, m * m, 2);
        // All loads are under way before the first is waited for; sigmoids are spread, one a thread.
        const LoadOptions spread{.per_thread = {1, 1}};
        const auto a = first.affine(tile, spread), b = second.affine(tile, spread), c = third.affine(tile);
        store(third.piece(comb, tile), c);
        store(first.piece(pre, tile), sigmoid(a) + pre_eps);
        store(second.piece(post, tile), sigmoid(b) * post_mult);
    });
}

Program split_mixes_backward_program(const MixForm& form) {
    return record(backward, [=](Kernel& k) {
        const std::int64_t m = form.streams, columns = m * (m + 2);
        const MixParameters in(k, columns, 3, form.aligned);
        const auto post = k.input<f32>("post", {in.tokens, m}, in.options);
        const auto g_pre = k.input<f32>("grad_pre", {in.tokens, m}, in.options);
        const auto g_post = k.input<f32>("grad_post", {in.tokens, m}, in.options);
        const auto g_comb = k.input<f32>("grad_comb", {in.tokens, m * m}, in.options);
        const auto grad_logits = k.output<f32>("grad_logits", {in.tokens, columns}, in.options);
        const Dim count = k.dim("parts");
        const auto parts = k.output<f32>("part_sums", {count, columns + 3}, {.align = 4});
        const auto post_mult = k.scalar<f32>("post_mult");
        k.threads(mix_threads, 12);  // 80 registers: with fewer the compiler spills
        const auto [part] = k.grid(count);
        const Section first(in, 0, m, 0), second(in, m, m, 1), third(in, 2 * m, m * m, 2);
        SectionSums sums[3] = {SectionSums(k, first), SectionSums(k, second), SectionSums(k, third)};
        k.serial((ceil_div(in.tokens, mix_rows) + count - 1) / count, [&](Index step) {
            const Index tile = step * count + part;
            const auto x = first.logits(tile);
            const auto p = sigmoid(first.affine(x));
            sums[0].add(load(first.piece(g_pre, tile)) * p * (1.0f - p), x, grad_logits, tile);
            const auto saved = load(second.piece(post, tile));
            sums[1].add(load(second.piece(g_post, tile)) * saved * (1.0f - saved / post_mult), second.logits(tile),
                        grad_logits, tile);
            sums[2].add(load(third.piece(g_comb, tile)), third.logits(tile), grad_logits, tile);
        });
        for (std::int64_t s = 0; s < 3; ++s) sums[s].store_part(parts, part, columns, s);
    });
}

void split_mixes_forward(const Stream& stream, const SplitInputs& inputs, const Mixes<TensorView>& out,
                         const SplitOptions& options) {
    launch_forward(stream, check(forward, stream, inputs, options), out, options);
}

Mixes<Tensor> split_mixes_forward(const Stream& stream, const SplitInputs& inputs, const SplitOptions& options) {
    const Checked c = check(forward, stream, inputs, options);
    const Shape vectors = with_tail(inputs.logits.extents, 1, {c.m});
    Mixes<Tensor> out{Tensor::empty(stream, f32, vectors), Tensor::empty(stream, f32, vectors),
                      Tensor::empty(stream, f32, with_tail(vectors, 1, {c.m, c.m}))};
    launch_forward(stream, c, {out.pre, out.post, out.comb}, options);
    return out;
}

void split_mixes_backward(const Stream& stream, const SplitInputs& inputs, const TensorView& post,
                          const Mixes<TensorView>& grad_out, const MixGradients<TensorView>& gradients,
                          const SplitOptions& options, const Accumulate& accumulate) {
    const Checked c = check(backward, stream, inputs, options);
    check_post_mult(options);
    launch_backward(stream, c, post, grad_out, gradients, options, accumulate);
}

MixGradients<Tensor> split_mixes_backward(const Stream& stream, const SplitInputs& inputs, const TensorView& post,
                                          const Mixes<TensorView>& grad_out, const SplitOptions& options) {
    const Checked c = check(backward, stream, inputs, options);
    check_post_mult(options);
    per_token(backward, "saved post", stream, post, f32, c.tokens, {c.m});
    check_mixes(backward, stream, c, grad_out);
    MixGradients<Tensor> result{Tensor::empty(stream, f32, inputs.logits.extents), Tensor::empty(stream, f32, {3}),
                                Tensor::empty(stream, f32, {c.columns})};
    launch_backward(stream, c, post, grad_out, MixGradients<TensorView>{result.logits, result.scale, result.base},
                    options, {});
    return result;
}

}  // namespace tessera::mhc

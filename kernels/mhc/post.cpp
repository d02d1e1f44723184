#include <memory>
#include <vector>

#include "kernels/mhc/arguments.hpp"
#include "kernels/mhc/columns.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::mhc {

namespace {

constexpr const char* forward = "mhc_post_forward";
constexpr const char* backward = "mhc_post_backward";

struct Checked {
    std::int64_t tokens, m, h;
    PostInputs in;
};
Checked check(const char* function, const Stream& stream, const PostInputs& in) {
    const std::int64_t tokens = tokens_of(function, "residual", in.residual, 2);
    const std::int64_t m = in.residual.extents[in.residual.rank() - 2], h = in.residual.extents.back();
    check_streams(function, m);
    check_hidden(function, h);
    return {tokens,
            m,
            h,
            {per_token(function, "y", stream, in.y, bf16, tokens, {h}),
             per_token(function, "residual", stream, in.residual, bf16, tokens, {m, h}),
             per_token(function, "post", stream, in.post, f32, tokens, {m}),
             per_token(function, "comb", stream, in.comb, f32, tokens, {m, m})}};
}

void launch_forward(const Stream& stream, const Checked& c, const TensorView& out) {
    const TensorView to = per_token(forward, "out", stream, out, bf16, c.tokens, {c.m, c.h});
    if (c.tokens == 0) return;
    const StreamsForm form{c.m, c.h, aligned({&c.in.y, &c.in.residual, &to})};
    Engine::of(stream)
        .kernel(stream, KernelId(forward, {form.streams, form.hidden, form.aligned}),
                [&] { return post_forward_program(form); })
        .launch(stream, {c.in.y, c.in.residual, c.in.post, c.in.comb, to});
}

void launch_backward(const Stream& stream, const Checked& c, const TensorView& grad_out,
                     const PostGradients<TensorView>& to, Residual mode) {
    const TensorView g = per_token(backward, "grad_out", stream, grad_out, bf16, c.tokens, {c.m, c.h});
    const TensorView dy = per_token(backward, "gradients.y", stream, to.y, bf16, c.tokens, {c.h});
    const TensorView dr = per_token(backward, "gradients.residual", stream, to.residual, bf16, c.tokens, {c.m, c.h});
    const TensorView dpost = per_token(backward, "gradients.post", stream, to.post, f32, c.tokens, {c.m});
    const TensorView dcomb = per_token(backward, "gradients.comb", stream, to.comb, f32, c.tokens, {c.m, c.m});
    if (c.tokens == 0) return;
    const StreamsForm form{c.m, c.h, aligned({&c.in.y, &c.in.residual, &g, &dy, &dr}), mode};
    Engine::of(stream)
        .kernel(stream, KernelId(backward, {form.streams, form.hidden, form.aligned, form.residual}),
                [&] { return post_backward_program(form); })
        .launch(stream, {c.in.y, c.in.residual, c.in.post, c.in.comb, g, dy, dr, dpost, dcomb});
}

/// The inputs as both kernels declare them.
struct Parameters {
    Dim tokens;
    Global<bf16, 2> y;
    Global<bf16, 3> residual;
    Global<f32, 2> post;
    Global<f32, 3> comb;

    Parameters(Kernel& k, const StreamsForm& form, const Columns& columns)
        : tokens(k.dim("tokens")),
          y(k.input<bf16>("y", {tokens, form.hidden}, columns.options())),
          residual(k.input<bf16>("residual", {tokens, form.streams, form.hidden}, columns.options())),
          post(k.input<f32>("post", {tokens, form.streams}, {.align = 4})),
          comb(k.input<f32>("comb", {tokens, form.streams, form.streams}, {.align = 4})) {}
};

}  // namespace

Program post_forward_program(const StreamsForm& form) {
    return record(forward, [=](Kernel& k) {
        const Columns columns(form);
        const std::int64_t m = form.streams, width = columns.width();
        const Parameters in(k, form, columns);
        const auto out = k.output<bf16>("out", {in.tokens, m, form.hidden}, columns.options());
        k.threads(columns.threads());
        const auto [token, step] = k.grid(in.tokens, columns.steps());
        const auto y = load(in.y.block({1, width}, {token, step}));
        std::vector<Value<bf16, 2>> residual;
        for (std::int64_t i = 0; i < m; ++i) residual.push_back(load(in.residual[token].block({1, width}, {i, step})));
        const auto stream = [&](std::int64_t i) { return cast<f32>(residual[static_cast<std::size_t>(i)]); };
        for (std::int64_t o = 0; o < m; ++o) {
            const auto weight = [&](std::int64_t i) { return load(in.comb[token][i][o]); };
            auto sum = fma(cast<f32>(y), load(in.post[token][o]), stream(0) * weight(0));
            for (std::int64_t i = 1; i < m; ++i) sum = fma(stream(i), weight(i), sum);
            store(out[token].block({1, width}, {o, step}), cast<bf16>(sum));
        }
    });
}

Program post_backward_program(const StreamsForm& form) {
    return record(backward, [=](Kernel& k) {
        const Columns columns(form);
        const std::int64_t m = form.streams, h = form.hidden, width = columns.width();
        const Parameters in(k, form, columns);
        const bool adds = form.residual == Residual::accumulate;
        const auto grad = k.input<bf16>("grad_out", {in.tokens, m, h}, columns.options());
        const auto dy = k.output<bf16>("grad_y", {in.tokens, h}, columns.options());
        const auto dr = adds ? k.inout<bf16>("grad_residual", {in.tokens, m, h}, columns.options())
                             : k.output<bf16>("grad_residual", {in.tokens, m, h}, columns.options());
        const auto dpost = k.output<f32>("grad_post", {in.tokens, m}, {.align = 4});
        const auto dcomb = k.output<f32>("grad_comb", {in.tokens, m, m}, {.align = 4});
        k.threads(columns.threads(), 3);
        const auto [token] = k.grid(in.tokens);
        std::vector<Value<f32, 0>> post;
        std::vector<Value<f32, 2>> comb;  // of each output stream: [m, 1]
        std::vector<std::unique_ptr<Variable<f32, 4>>> comb_sums, post_sums;
        for (std::int64_t o = 0; o < m; ++o) {
            post.push_back(load(in.post[token][o]));
            comb.push_back(load(in.comb[token].window({m, 1}, {0, o})));
            comb_sums.emplace_back(new Variable<f32, 4>(k.variable(columns.no_sum(m))));
            post_sums.emplace_back(new Variable<f32, 4>(k.variable(columns.no_sum(1))));
        }
        // The next step's vectors are under way while this one's are computed with.
        const auto load_y = [&](const Index& step) { return load(in.y.block({1, width}, {token, step})); };
        const auto load_residual = [&](const Index& step) {
            return load(in.residual[token].block({m, width}, {0, step}));
        };
        const auto load_grad = [&](std::int64_t o, const Index& step) {
            return load(grad[token].block({1, width}, {o, step}));
        };
        auto next_y = k.variable(load_y(0));
        auto next_residual = k.variable(load_residual(0));
        std::vector<std::unique_ptr<Variable<bf16, 2>>> next_grad;
        for (std::int64_t o = 0; o < m; ++o) next_grad.emplace_back(new Variable<bf16, 2>(k.variable(load_grad(o, 0))));
        k.serial(columns.steps(), [&](Index step) {
            const auto y = cast<f32>(next_y.get()), residual = cast<f32>(next_residual.get());
            std::vector<Value<bf16, 2>> gradients;
            for (const auto& g : next_grad) gradients.push_back(g->get());
            auto y_grad = full({1, width}, Value<f32, 0>(0.0f));
            auto residual_grad = full({m, width}, Value<f32, 0>(0.0f));
            if (adds) residual_grad = cast<f32>(load(dr[token].block({m, width}, {0, step})));
            next_y = load_y(step + 1);
            next_residual = load_residual(step + 1);
            for (std::int64_t o = 0; o < m; ++o) *next_grad[static_cast<std::size_t>(o)] = load_grad(o, step + 1);
            for (std::size_t o = 0; o < gradients.size(); ++o) {
                const auto g = cast<f32>(gradients[o]);
                y_grad = fma(g, post[o], y_grad);
                residual_grad = fma(comb[o], g, residual_grad);
                *comb_sums[o] = comb_sums[o]->get() + columns.thread_sum(residual * g);
                *post_sums[o] = post_sums[o]->get() + columns.thread_sum(y * g);
            }
            store(dy.block({1, width}, {token, step}), cast<bf16>(y_grad));
            store(dr[token].block({m, width}, {0, step}), cast<bf16>(residual_grad));
        });
        for (std::int64_t o = 0; o < m; ++o) {
            const auto at = static_cast<std::size_t>(o);
            store(dcomb[token].window({m, 1}, {0, o}), Columns::total(comb_sums[at]->get()).unsqueeze(axis<1>));
            store(dpost[token].window({1}, {o}), Columns::total(post_sums[at]->get()));
        }
    });
}

void post_forward(const Stream& stream, const PostInputs& inputs, const TensorView& out) {
    launch_forward(stream, check(forward, stream, inputs), out);
}

Tensor post_forward(const Stream& stream, const PostInputs& inputs) {
    const Checked c = check(forward, stream, inputs);
    Tensor out = Tensor::empty(stream, bf16, inputs.residual.extents);
    launch_forward(stream, c, out);
    return out;
}

void post_backward(const Stream& stream, const PostInputs& inputs, const TensorView& grad_out,
                   const PostGradients<TensorView>& gradients, Residual mode) {
    launch_backward(stream, check(backward, stream, inputs), grad_out, gradients, mode);
}

PostGradients<Tensor> post_backward(const Stream& stream, const PostInputs& inputs, const TensorView& grad_out) {
    const Checked c = check(backward, stream, inputs);
    per_token(backward, "grad_out", stream, grad_out, bf16, c.tokens, {c.m, c.h});
    PostGradients<Tensor> result{
        Tensor::empty(stream, bf16, inputs.y.extents), Tensor::empty(stream, bf16, inputs.residual.extents),
        Tensor::empty(stream, f32, inputs.post.extents), Tensor::empty(stream, f32, inputs.comb.extents)};
    launch_backward(stream, c, grad_out, PostGradients<TensorView>{result.y, result.residual, result.post, result.comb},
                    Residual::overwrite);
    return result;
}

}  // namespace tessera::mhc

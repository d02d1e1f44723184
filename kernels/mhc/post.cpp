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

/// One token a block, in steps; sums over the channels live across them.
class PostBackward {
public:
    PostBackward(Kernel& k, const StreamsForm& form)
        : k_(k),
          m_(form.streams),
          columns_(form),
          in_(k, form, columns_),
          adds_(form.residual == Residual::accumulate),
          ahead_(columns_.whole_vectors() && m_ <= 4),
          grad_(k.input<bf16>("grad_out", {in_.tokens, m_, form.hidden}, columns_.options())),
          dy_(k.output<bf16>("grad_y", {in_.tokens, form.hidden}, columns_.options())),
          dr_(adds_ ? k.inout<bf16>("grad_residual", {in_.tokens, m_, form.hidden}, columns_.options())
                    : k.output<bf16>("grad_residual", {in_.tokens, m_, form.hidden}, columns_.options())),
          dpost_(k.output<f32>("grad_post", {in_.tokens, m_}, {.align = 4})),
          dcomb_(k.output<f32>("grad_comb", {in_.tokens, m_, m_}, {.align = 4})) {}

    void record() {
        // Three blocks of a multiprocessor leave registers for all vectors of a step at once.
        k_.threads(columns_.threads(), ahead_ ? 3 : 1);
        token_ = k_.grid(in_.tokens).x;
        for (std::int64_t o = 0; o < m_; ++o) {
            comb_sums_.emplace_back(new Sums(k_.variable(columns_.no_sum(m_))));
            post_sums_.emplace_back(new Sums(k_.variable(columns_.no_sum(1))));
        }
        if (ahead_)
            steps_ahead();
        else
            k_.serial(columns_.steps(), [&](Index step) { compute(step, loaded(step), {}); });
        for (std::int64_t o = 0; o < m_; ++o) {
            const auto at = static_cast<std::size_t>(o);
            store(dcomb_[token_].window({m_, 1}, {0, o}), Columns::total(comb_sums_[at]->get()).unsqueeze(axis<1>));
            store(dpost_[token_].window({1}, {o}), Columns::total(post_sums_[at]->get()));
        }
    }

private:
    using Sums = Variable<f32, 4>;
    using Held = Variable<bf16, 2>;
    using Tile = Value<bf16, 2>;

    /// What a step reads: y, the residual, and each stream's gradient.
    struct Step {
        Tile y, residual;
        std::vector<Tile> grad;
    };
    /// How output stream o was mixed: post [] and comb [m, 1].
    struct Weights {
        Value<f32, 0> post;
        Value<f32, 2> comb;
    };

    Step loaded(const Index& step) const {
        const std::int64_t width = columns_.width();
        Step s{load(in_.y.block({1, width}, {token_, step})),
               load(in_.residual[token_].block({m_, width}, {0, step})),
               {}};
        for (std::int64_t o = 0; o < m_; ++o) s.grad.push_back(load(grad_[token_].block({1, width}, {o, step})));
        return s;
    }
    Weights weights(std::int64_t o) const {
        return {load(in_.post[token_][o]), load(in_.comb[token_].window({m_, 1}, {0, o}))};
    }

    /// The next step's vectors are loaded before the present one's are computed with.
    void steps_ahead() {
        std::vector<Weights> all;
        for (std::int64_t o = 0; o < m_; ++o) all.push_back(weights(o));
        const Step first = loaded(0);
        Held y(k_.variable(first.y)), residual(k_.variable(first.residual));
        std::vector<std::unique_ptr<Held>> grad;
        for (const Tile& g : first.grad) grad.emplace_back(new Held(k_.variable(g)));
        k_.serial(columns_.steps(), [&](Index step) {
            Step now{y.get(), residual.get(), {}};
            for (const auto& g : grad) now.grad.push_back(g->get());
            const Step next = loaded(step + 1);
            y = next.y;
            residual = next.residual;
            for (std::size_t o = 0; o < grad.size(); ++o) *grad[o] = next.grad[o];
            compute(step, now, all);
        });
    }

    /// all: weights in registers; empty: they are read again, for want of registers.
    void compute(const Index& step, const Step& s, const std::vector<Weights>& all) {
        const std::int64_t width = columns_.width();
        const auto y = cast<f32>(s.y), residual = cast<f32>(s.residual);
        auto y_grad = full({1, width}, Value<f32, 0>(0.0f));
        auto residual_grad = full({m_, width}, Value<f32, 0>(0.0f));
        if (adds_) residual_grad = cast<f32>(load(dr_[token_].block({m_, width}, {0, step})));
        for (std::size_t o = 0; o < s.grad.size(); ++o) {
            const Weights w = all.empty() ? weights(static_cast<std::int64_t>(o)) : all[o];
            const auto g = cast<f32>(s.grad[o]);
            y_grad = fma(g, w.post, y_grad);
            residual_grad = fma(w.comb, g, residual_grad);
            *comb_sums_[o] = comb_sums_[o]->get() + columns_.thread_sum(residual * g);
            *post_sums_[o] = post_sums_[o]->get() + columns_.thread_sum(y * g);
        }
        store(dy_.block({1, width}, {token_, step}), cast<bf16>(y_grad));
        store(dr_[token_].block({m_, width}, {0, step}), cast<bf16>(residual_grad));
    }

    Kernel& k_;
    std::int64_t m_;
    Columns columns_;
    Parameters in_;
    bool adds_, ahead_;
    Global<bf16, 3> grad_;
    Global<bf16, 2> dy_;
    Global<bf16, 3> dr_;
    Global<f32, 2> dpost_;
    Global<f32, 3> dcomb_;
    Index token_{0};
    std::vector<std::unique_ptr<Sums>> comb_sums_, post_sums_;
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
    return record(backward, [=](Kernel& k) { PostBackward(k, form).record(); });
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

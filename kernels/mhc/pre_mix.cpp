#include <vector>

#include "kernels/mhc/arguments.hpp"
#include "kernels/mhc/mix_rows.hpp"
#include "kernels/mhc/norm_kernels.hpp"
#include "kernels/mhc/norm_rows.hpp"
#include "kernels/mhc/sinkhorn_tile.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

// All of pre_big_fuse behind the product. A block has one token. Every warp computes its mixes, so that none waits for
// another; the first channels are under way meanwhile.

namespace tessera::mhc {

namespace {

constexpr const char* function = "mhc_pre_mix";

/// Channels of a step: 8 a thread.
constexpr std::int64_t per_thread = 8;
/// Steps whose loads are under way together.
constexpr std::int64_t at_once = 2;

/// Few tokens take wider blocks, so that each is done sooner; many take blocks with less to do twice.
int threads_for(std::int64_t tokens, std::int64_t hidden, std::int64_t multiprocessors) {
    if (hidden <= 256) return 32;
    return tokens <= 8 * multiprocessors && hidden > 512 ? 128 : 64;
}

class PreMix {
public:
    PreMix(Kernel& k, const PreMixForm& form)
        : k_(k),
          m_(form.streams),
          hidden_(form.hidden),
          width_(form.threads * per_thread),
          tile_({form.streams, form.bounded, form.aligned}),
          tokens_(k.dim("tokens")),
          splits_(k.dim("splits")),
          products_(k.input<f32>("products", {splits_, tokens_, m_ * (m_ + 2)})),
          squares_(k.input<f32>("squares", {splits_, tokens_}, {.align = 4})),
          residual_(k.input<bf16>("residual", {tokens_, m_, hidden_})),
          scale_(k.input<f32>("scale", {3}, {.align = 4})),
          base_(k.input<f32>("base", {m_ * (m_ + 2)}, {.align = 4})),
          post_(k.output<f32>("post", {tokens_, m_}, {.align = form.aligned ? 16 : 4})),
          comb_(k.output<f32>("comb", {tokens_, m_ * m_}, {.align = form.aligned ? 16 : 4})),
          u_(k.output<bf16>("u", {tokens_, hidden_})),
          norm_eps_(k.scalar<f32>("norm_eps")),
          pre_eps_(k.scalar<f32>("pre_eps")),
          sinkhorn_eps_(k.scalar<f32>("sinkhorn_eps")),
          post_mult_(k.scalar<f32>("post_mult")),
          repeat_(k.scalar<i64>("repeat")),
          token_((k.dependent_launch(), k.threads(form.threads, 512 / form.threads), k.grid(tokens_).x)) {}

    void record() {
        const std::int64_t steps = ceil_div(hidden_, width_);
        auto ahead = loaded(Index(0), std::min(steps, at_once));
        const auto squared =
            ordered_sum(k_, Value<f32, 0>(0.0f), splits_, [&](const Index& s) { return load(squares_[s][token_]); });
        inverse_norm_ = inverse_norm(squared, static_cast<float>(m_ * hidden_), norm_eps_);
        const auto pre = pre_mix();
        post_mix();
        comb_mix();
        mix(ahead, Index(0), pre);
        const std::int64_t groups = (steps - 1) / at_once;  // that are left
        k_.serial(groups, [&](Index g) {
            const Index first = (g + 1) * at_once;
            mix(loaded(first, at_once), first, pre);
        });
    }

private:
    using Row = Value<bf16, 2>;
    /// `count` steps from `first` on of all streams.
    std::vector<Row> loaded(const Index& first, std::int64_t count) const {
        std::vector<Row> rows;
        for (std::int64_t s = 0; s < count; ++s)
            for (std::int64_t i = 0; i < m_; ++i)
                rows.push_back(load(residual_[token_].block({1, width_}, {i, first + s})));
        return rows;
    }
    void mix(const std::vector<Row>& rows, const Index& first, const std::vector<Value<f32, 0>>& pre) const {
        const auto streams = static_cast<std::size_t>(m_);
        for (std::size_t s = 0; s * streams < rows.size(); ++s) {
            auto sum = full({1, width_}, Value<f32, 0>(0.0f));
            for (std::size_t i = 0; i < streams; ++i) sum = fma(cast<f32>(rows[s * streams + i]), pre[i], sum);
            store(u_.block({1, width_}, {token_, first + static_cast<std::int64_t>(s)}), cast<bf16>(sum));
        }
    }

    /// scale · logit + base of the mixes from `first` on, each lane `lane` of them.
    Value<f32, 1> affine(std::int64_t first, std::int64_t count, std::int64_t lane, std::int64_t section) {
        const LoadOptions lie{.per_thread = {lane}};
        const auto sum = ordered_sum(k_, full({count}, Value<f32, 0>(0.0f)), splits_, [&](const Index& s) {
            return load(products_[s][token_].window({count}, {first}), lie);
        });
        return fma(sum * inverse_norm_, load(scale_[section]), load(base_.window({count}, {first}), lie));
    }

    std::vector<Value<f32, 0>> pre_mix() {
        const auto shared = k_.shared<f32>("pre", {m_});
        store(shared.whole(), sigmoid(affine(0, m_, 1, 0)) + pre_eps_);
        std::vector<Value<f32, 0>> pre;
        for (std::int64_t i = 0; i < m_; ++i) pre.push_back(load(shared[i]));
        return pre;
    }
    void post_mix() { store(post_[token_].block({m_}, {0}), sigmoid(affine(m_, m_, 1, 1)) * post_mult_); }
    void comb_mix() {
        const auto x = affine(2 * m_, m_ * m_, tile_.per_lane(), 2).split(axis<0>, m_).unsqueeze(axis<0>);
        const auto y = tile_.normalised(k_, x, repeat_, sinkhorn_eps_);
        store(comb_[token_].block({m_ * m_}, {0}), y.squeeze(axis<0>).merge(axis<0>));
    }

    Kernel& k_;
    std::int64_t m_, hidden_, width_;
    SinkhornTile tile_;
    Dim tokens_, splits_;
    Global<f32, 3> products_;
    Global<f32, 2> squares_;
    Global<bf16, 3> residual_;
    Global<f32, 1> scale_, base_;
    Global<f32, 2> post_, comb_;
    Global<bf16, 2> u_;
    Value<f32, 0> norm_eps_, pre_eps_, sinkhorn_eps_, post_mult_;
    Index repeat_, token_;
    Value<f32, 0> inverse_norm_{0.0f};
};

}  // namespace

Program pre_mix_program(const PreMixForm& form) {
    return record(function, [=](Kernel& k) { PreMix(k, form).record(); });
}

void launch_pre_mix(const Stream& stream, const SplitProducts& parts, const TensorView& residual, const PreInputs& in,
                    const Pre<TensorView>& out, const PreOptions& o) {
    const std::int64_t tokens = out.post.extents[0], m = out.post.extents[1], h = out.u.extents[1];
    const PreMixForm form{m, h, threads_for(tokens, h, stream.device().target().multiprocessors),
                          bounded_sums(o.sinkhorn_eps), aligned({&out.post, &out.comb})};
    TensorView streams = residual, comb = out.comb;
    streams.extents = {tokens, m, h}, streams.strides = dense_strides(streams.extents);
    comb.extents = {tokens, m * m}, comb.strides = dense_strides(comb.extents);
    Engine::of(stream)
        .kernel(stream, KernelId(function, {m, h, form.threads, form.bounded, form.aligned}),
                [&] { return pre_mix_program(form); })
        .launch(stream, {parts.products, parts.squares, streams, in.scale, in.base, out.post, comb, out.u},
                {Scalar("norm_eps", o.norm_eps), Scalar("pre_eps", o.pre_eps), Scalar("sinkhorn_eps", o.sinkhorn_eps),
                 Scalar("post_mult", o.post_mult), Scalar("repeat", o.repeat)},
                {.dependent = true});
}

}  // namespace tessera::mhc

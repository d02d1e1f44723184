#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/mhc/arguments.hpp"
#include "kernels/mhc/mix_rows.hpp"
#include "kernels/mhc/norm_kernels.hpp"
#include "kernels/mhc/norm_rows.hpp"
#include "kernels/mhc/sinkhorn_tile.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

// All of pre_big_fuse behind the product. A block has one token. Every warp computes its mixes, so that none waits for
// another; the first channels are under way meanwhile. What the product read last may still lie in the L2 cache; it
// stays there until its turn, as this kernel's own accesses are streaming.

namespace tessera::mhc {

namespace {

constexpr const char* function = "mhc_pre_mix";

/// Channels of a step: 8 a thread.
constexpr std::int64_t per_thread = 8;
/// Steps whose loads are under way together: as many as registers hold. Streams that are no power of two take more of
/// these for their mixes.
std::int64_t steps_at_once(std::int64_t streams, std::int64_t steps) {
    const std::int64_t loads = std::has_single_bit(static_cast<std::uint64_t>(streams)) ? 16 : 8;
    return std::clamp<std::int64_t>(loads / streams, 1, steps);
}
/// More splits than these are loaded all together, by all threads, and summed out of shared memory.
constexpr std::int64_t most_direct = 8;

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
          steps_(ceil_div(hidden_, width_)),
          steps_at_once_(steps_at_once(m_, steps_)),
          at_once_(form.at_once),
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
          token_((k.threads(form.threads, 512 / form.threads), k.grid(tokens_).x)) {}

    void record() {
        auto ahead = loaded(Index(0), steps_at_once_);
        const std::vector<Affine> weights{affine(0), affine(1), affine(2)};
        k_.dependent_launch();  // the splits come from the kernel ahead; all before is there already
        const Logits logits = sum_splits();
        const auto r = inverse_norm(logits.squares, static_cast<float>(m_ * hidden_), norm_eps_);
        const auto pre = pre_mix(weights[0](logits.pre * r));
        store(post_[token_].block({m_}, {0}), sigmoid(weights[1](logits.post * r)) * post_mult_);
        mix(ahead, Index(0), pre);
        // comb takes long and needs no memory: the next channels are under way meanwhile.
        const std::int64_t next = std::min(steps_ - steps_at_once_, steps_at_once_);
        if (next > 0) ahead = loaded(Index(steps_at_once_), next);
        comb_mix(weights[2](logits.comb * r));
        if (next > 0) mix(ahead, Index(steps_at_once_), pre);
        const std::int64_t groups = ceil_div(steps_, steps_at_once_);
        k_.serial(std::max<std::int64_t>(groups - 2, 0), [&](Index g) {
            const Index first = (g + 2) * steps_at_once_;
            mix(loaded(first, steps_at_once_), first, pre);
        });
    }

private:
    using Row = Value<bf16, 2>;
    /// `count` steps from `first` on of all streams.
    std::vector<Row> loaded(const Index& first, std::int64_t count) const {
        std::vector<Row> rows;
        for (std::int64_t s = 0; s < count; ++s)
            for (std::int64_t i = 0; i < m_; ++i)
                rows.push_back(load(residual_[token_].block({1, width_}, {i, first + s}), {.cache = Cache::streaming}));
        return rows;
    }
    void mix(const std::vector<Row>& rows, const Index& first, const std::vector<Value<f32, 0>>& pre) const {
        const auto streams = static_cast<std::size_t>(m_);
        for (std::size_t s = 0; s * streams < rows.size(); ++s) {
            auto sum = full({1, width_}, Value<f32, 0>(0.0f));
            for (std::size_t i = 0; i < streams; ++i) sum = fma(cast<f32>(rows[s * streams + i]), pre[i], sum);
            store(u_.block({1, width_}, {token_, first + static_cast<std::int64_t>(s)}), cast<bf16>(sum),
                  {.cache = Cache::streaming});
        }
    }

    /// Of this token: the sum of squares, and the products of pre, post and comb.
    struct Logits {
        Value<f32, 0> squares;
        Value<f32, 1> pre, post, comb;
    };
    /// The numbers of section 0, 1 or 2 in a row of logits: a lane for each, or for each row of comb.
    template <class Memory>
    Value<f32, 1> section(const Memory& of, int i) const {
        const std::int64_t lane = i == 2 ? tile_.per_lane() : 1;
        return load(of.window({i == 2 ? m_ * m_ : m_}, {i * m_}), {.per_thread = {lane}});
    }
    Logits sum_splits() {
        if (at_once_ <= most_direct)
            return sum_of(
                at_once_, [&](const Index& s) { return load(squares_[s][token_]); },
                [&](const Index& s) { return products_[s][token_]; });
        const std::int64_t columns = m_ * (m_ + 2);
        const auto squares = k_.shared<f32>("split_squares", {at_once_});
        const auto products = k_.shared<f32>("split_products", {at_once_, columns});
        const auto all = load(products_.window({at_once_, 1, columns}, {0, token_, 0}));
        store(squares.whole(), load(squares_.window({at_once_, 1}, {0, token_})).squeeze(axis<1>));
        store(products.whole(), all.squeeze(axis<1>));
        return sum_of(4, [&](const Index& s) { return load(squares[s]); }, [&](const Index& s) { return products[s]; });
    }
    /// square(s): of split s; row(s): where its products lie.
    template <class Square, class RowOf>
    Logits sum_of(std::int64_t together, Square&& square, RowOf&& row_of) {
        const auto part = [&](const Index& s) {
            const auto row = row_of(s);
            return Logits{square(s), section(row, 0), section(row, 1), section(row, 2)};
        };
        const Value<f32, 0> zero(0.0f);
        auto squares = k_.variable(zero);
        auto pre = k_.variable(full({m_}, zero)), post = k_.variable(full({m_}, zero)),
             comb = k_.variable(full({m_ * m_}, zero));
        each_split(k_, splits_, together, part, [&](const Logits& p) {
            squares = squares.get() + p.squares;
            pre = pre.get() + p.pre;
            post = post.get() + p.post;
            comb = comb.get() + p.comb;
        });
        return {squares.get(), pre.get(), post.get(), comb.get()};
    }
    struct Affine {
        Value<f32, 0> scale;
        Value<f32, 1> base;
        Value<f32, 1> operator()(const Value<f32, 1>& logits) const { return fma(logits, scale, base); }
    };
    Affine affine(int i) const { return {load(scale_[i]), section(base_, i)}; }

    std::vector<Value<f32, 0>> pre_mix(const Value<f32, 1>& z) {
        const auto shared = k_.shared<f32>("pre", {m_});
        store(shared.whole(), sigmoid(z) + pre_eps_);
        std::vector<Value<f32, 0>> pre;
        for (std::int64_t i = 0; i < m_; ++i) pre.push_back(load(shared[i]));
        return pre;
    }
    void comb_mix(const Value<f32, 1>& z) {
        const auto x = z.split(axis<0>, m_).unsqueeze(axis<0>);
        const auto y = tile_.normalised(k_, x, repeat_, sinkhorn_eps_);
        store(comb_[token_].block({m_ * m_}, {0}), y.squeeze(axis<0>).merge(axis<0>));
    }

    Kernel& k_;
    std::int64_t m_, hidden_, width_, steps_, steps_at_once_, at_once_;
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
};

}  // namespace

std::int64_t pre_mix_at_once(std::int64_t streams, std::int64_t splits) {
    if (splits > most_direct) return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(splits)));
    return splits_at_once(splits, 3 + SinkhornTile({streams}).per_lane());
}

Program pre_mix_program(const PreMixForm& form) {
    return record(function, [=](Kernel& k) { PreMix(k, form).record(); });
}

void launch_pre_mix(const Stream& stream, const SplitProducts& parts, const TensorView& residual, const PreInputs& in,
                    const Pre<TensorView>& out, const PreOptions& o) {
    const std::int64_t tokens = out.post.extents[0], m = out.post.extents[1], h = out.u.extents[1];
    const PreMixForm form{m,
                          h,
                          pre_mix_at_once(m, parts.squares.extents()[0]),
                          threads_for(tokens, h, stream.device().target().multiprocessors),
                          bounded_sums(o.sinkhorn_eps),
                          aligned({&out.post, &out.comb})};
    TensorView streams = residual, comb = out.comb;
    streams.extents = {tokens, m, h}, streams.strides = dense_strides(streams.extents);
    comb.extents = {tokens, m * m}, comb.strides = dense_strides(comb.extents);
    Engine::of(stream)
        .kernel(stream, KernelId(function, {m, h, form.at_once, form.threads, form.bounded, form.aligned}),
                [&] { return pre_mix_program(form); })
        .launch(stream, {parts.products, parts.squares, streams, in.scale, in.base, out.post, comb, out.u},
                {Scalar("norm_eps", o.norm_eps), Scalar("pre_eps", o.pre_eps), Scalar("sinkhorn_eps", o.sinkhorn_eps),
                 Scalar("post_mult", o.post_mult), Scalar("repeat", o.repeat)},
                {.dependent = true});
}

}  // namespace tessera::mhc

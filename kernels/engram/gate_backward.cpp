#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <vector>

#include "dsl/base/error.hpp"
#include "kernels/engram/check.hpp"
#include "kernels/engram/gate.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

// Blocks that persist share the tokens out evenly and walk through theirs two at a time: first the dot products of
// grad_out and v, then everything else. The weight's gradient gathers in shared memory, every element with one thread,
// or in the block's row of the result where it does not fit. grad_out is read again while it is still in the L2 cache:
// all that is touched for the last time streams past it (without that a quarter of the reads of memory were such
// repetitions).

namespace tessera::engram {

namespace {

constexpr const char* name = "engram_gate_bwd";
constexpr std::int64_t tokens_at_once = 2;
/// Heads whose loads are under way together.
constexpr std::int64_t heads_at_once = 4;
/// Heads written out one by one; more are looped over.
constexpr std::int64_t most_unrolled = 8;

struct Plan {
    int threads;
    std::int64_t cols, steps;
    bool gradient_in_shared;
};
Plan plan_of(std::int64_t heads, std::int64_t hidden, bool aligned) {
    const std::int64_t vector = aligned ? 4 : 1;
    int threads = 128;
    while (threads < 512 && hidden > threads * vector) threads *= 2;
    constexpr std::int64_t most_bytes = 160 * 1024;
    return {threads, threads * vector, ceil_div(hidden, threads * vector), heads * hidden * 4 <= most_bytes};
}

using Row = Value<f32, 1>;
using Number = Value<f32, 0>;

class Backward {
public:
    Backward(Kernel& k, std::int64_t heads, std::int64_t hidden, bool aligned)
        : k_(k),
          heads_(heads),
          hidden_(hidden),
          plan_(plan_of(heads, hidden, aligned)),
          in_(k, heads, hidden, aligned),
          clamp_(k.scalar<f32>("clamp_value")) {
        const auto at = [&](int align) { return aligned ? 16 : align; };
        const Dim blocks = k.dim("blocks");
        go_ = k.input<bf16>("grad_out", {in_.tokens, heads, hidden}, {.align = at(2)});
        for (const char* score : {"dot", "gate_score", "rstd_x", "rstd_k"})
            saved_.push_back(k.input<f32>(score, {in_.tokens, heads}, {.align = 4}));
        grad_x_ = k.output<bf16>("grad_x", {in_.tokens, heads, hidden}, {.align = at(2)});
        grad_k_ = k.output<bf16>("grad_k", {in_.tokens, heads, hidden}, {.align = at(2)});
        grad_v_ = k.output<bf16>("grad_v", {in_.tokens, hidden}, {.align = at(2)});
        partial_ = k.inout<f32>("grad_w_partial", {blocks, heads, hidden}, {.align = at(4)});
        k.threads(plan_.threads, 1);
        block_ = k.grid(blocks).x;
        first_ = in_.tokens * block_ / blocks;
        end_ = in_.tokens * (block_ + 1) / blocks;
    }

    void record() {
        if (!plan_.gradient_in_shared) return record_with([&](const Index& head) { return (*partial_)[block_][head]; });
        const auto gradient = k_.shared<f32>("grad_w", {heads_, plan_.steps * plan_.cols});
        record_with([&](const Index& head) { return gradient[head]; });
        each_head([&](const Index& head) {
            k_.serial(plan_.steps, [&](Index s) {
                store((*partial_)[block_][head].block({plan_.cols}, {s}),
                      load(gradient[head].block({plan_.cols}, {s})));
            });
        });
    }

private:
    template <class Body>
    void each_head(Body&& body) {
        if (unrolled())
            k_.unrolled(heads_, body);
        else
            k_.serial(heads_, body);
    }

    /// gradient(head): where the weight's gradient gathers.
    template <class Gradient>
    void record_with(Gradient&& gradient) {
        each_head([&](const Index& head) {
            k_.serial(plan_.steps, [&](Index s) {
                store(gradient(head).block({plan_.cols}, {s}), full({plan_.cols}, Number(0.0f)));
            });
        });
        const Factors factors(k_, heads_);
        const SumTiles sums(k_, *this);
        k_.serial(ceil_div(end_ - first_, tokens_at_once), [&](Index round) {
            const Index token = first_ + round * tokens_at_once;
            // A token past the block's last becomes one past them all, which is neither read nor written.
            std::vector<Index> tokens;
            for (std::int64_t r = 0; r < tokens_at_once; ++r)
                tokens.push_back(select(token + r < end_, token + r, in_.tokens));
            find_factors(token, sums_of(token, sums), factors);
            const auto gates = unrolled() ? gates_of(factors) : std::vector<Number>();
            k_.serial(plan_.steps, [&](Index s) { differentiate(tokens, s, factors, gates, gradient); });
        });
    }

    bool unrolled() const { return heads_ <= most_unrolled; }
    using Pairs = Value<f32, 2>;  // [tokens_at_once, heads]

    /// Of each token and head: D, the gradient with respect to dot at fixed rstd; dot · rstd² / H of x and of k; the
    /// gate. Tiles of their own, so that no barrier stands between writing one and the next.
    struct Factors {
        Shared<f32, 2> D, px, pk, gate;
        Factors(Kernel& k, std::int64_t heads)
            : D(k.shared<f32>("D", {tokens_at_once, heads})),
              px(k.shared<f32>("px", {tokens_at_once, heads})),
              pk(k.shared<f32>("pk", {tokens_at_once, heads})),
              gate(k.shared<f32>("gate", {tokens_at_once, heads})) {}
    };
    /// Partial sums of all heads by thread; or, of heads that are looped over, the sums.
    struct SumTiles {
        std::optional<Shared<f32, 3>> parts;
        std::optional<Shared<f32, 2>> whole;
        SumTiles(Kernel& k, const Backward& b) {
            if (b.unrolled())
                parts = k.shared<f32>("parts", {tokens_at_once, b.heads_, b.plan_.threads});
            else
                whole = k.shared<f32>("sums", {tokens_at_once, align_up(b.heads_, heads_at_once)});
        }
    };

    /// Σ grad_out · v of some heads of the tokens from `token` on, each thread its own columns: [tokens, heads,
    /// threads].
    Value<f32, 3> sum_rows(const Index& token, const Index& first_head, std::int64_t heads) {
        const std::int64_t vector = plan_.cols / plan_.threads;
        auto total = k_.variable(full({tokens_at_once, heads, plan_.threads, 1}, Number(0.0f)));
        const auto step = [&](const Index& s) {
            const Index column = s * plan_.cols;
            const auto go = load(go_->window({tokens_at_once, heads, plan_.cols}, {token, first_head, column}),
                                 {.per_thread = {1, 1, vector}});
            const auto v =
                load(in_.v.window({tokens_at_once, plan_.cols}, {token, column}), {.per_thread = {1, vector}});
            const auto products = cast<f32>(go) * cast<f32>(v).unsqueeze(axis<1>);
            total = total.get() + reduce_sum(products.split(axis<2>, vector), axis<3>);
        };
        if (plan_.steps <= most_unrolled)
            k_.unrolled(plan_.steps, step);
        else
            k_.serial(plan_.steps, step);
        return total.get().squeeze(axis<3>);
    }

    Pairs sums_of(const Index& token, const SumTiles& tiles) {
        if (unrolled()) {
            store(tiles.parts->whole(), sum_rows(token, 0, heads_));
            const auto parts = load(tiles.parts->whole(), {.per_thread = {1, 1, 1}, .lanes = 32});
            return reduce_sum(parts, axis<2>).squeeze(axis<2>);
        }
        k_.serial(ceil_div(heads_, heads_at_once), [&](Index group) {
            const auto sums = reduce_sum(sum_rows(token, group * heads_at_once, heads_at_once), axis<2>);
            store(tiles.whole->block({tokens_at_once, heads_at_once}, {0, group}), sums.squeeze(axis<2>));
        });
        return load(tiles.whole->block({tokens_at_once, heads_}, {0, 0}));
    }

    void find_factors(const Index& token, const Pairs& G, const Factors& factors) {
        std::vector<Pairs> saved;
        for (const auto& score : saved_) saved.push_back(load(score.window({tokens_at_once, heads_}, {token, 0})));
        const auto raw = saved[0], g = saved[1], rx = saved[2], rk = saved[3];
        const float root = inverse_root(hidden_);
        const auto norm = root * rx * rk, s = abs(raw) * norm;
        // √(norm / |raw|), which would overflow on the way where both norms and |raw| are tiny.
        const auto slope = G * g * (1.0f - g) * 0.5f * (norm / sqrt(s));
        const auto there = token + coordinates({tokens_at_once, heads_}, axis<0>) < end_;
        const auto length = static_cast<float>(hidden_);
        store(factors.D.whole(), select(there & ~(s < clamp_), slope, 0.0f));
        store(factors.px.whole(), raw * rx * rx / length);
        store(factors.pk.whole(), raw * rk * rk / length);
        store(factors.gate.whole(), g);
    }

    std::vector<Number> gates_of(const Factors& factors) const {
        std::vector<Number> gates;
        for (std::int64_t r = 0; r < tokens_at_once; ++r)
            for (std::int64_t head = 0; head < heads_; ++head) gates.push_back(load(factors.gate[r][head]));
        return gates;
    }

    /// What a step needs of one token and head, and of a head.
    struct Loaded {
        Value<bf16, 1> go, x, k;
    };
    struct Head {
        Index head;
        Row weight;
        std::vector<Loaded> tokens;
    };
    Head load_head(const std::vector<Index>& tokens, const Index& s, const Index& head) const {
        Head h{head, load(in_.w[head].block({plan_.cols}, {s})), {}};
        for (const Index& token : tokens)
            h.tokens.push_back({load((*go_)[token][head].block({plan_.cols}, {s}), {.cache = Cache::streaming}),
                                load(in_.x[token][head].block({plan_.cols}, {s}), {.cache = Cache::streaming}),
                                load(in_.k[token][head].block({plan_.cols}, {s}), {.cache = Cache::streaming})});
        return h;
    }

    template <class Gradient>
    void differentiate(const std::vector<Index>& tokens, const Index& s, const Factors& factors,
                       const std::vector<Number>& gates, Gradient&& gradient) {
        const auto zero = full({plan_.cols}, Number(0.0f));
        Variable<f32, 1> grad_v[tokens_at_once] = {k_.variable(zero), k_.variable(zero)};
        const auto add = [&](const Head& h, const auto& gate_of) {
            const auto home = gradient(h.head).block({plan_.cols}, {s});
            Row sum = load(home);
            for (std::size_t r = 0; r < tokens.size(); ++r) {
                const auto D = load(factors.D[r][h.head]), px = load(factors.px[r][h.head]),
                           pk = load(factors.pk[r][h.head]);
                const auto go = cast<f32>(h.tokens[r].go), x = cast<f32>(h.tokens[r].x), k = cast<f32>(h.tokens[r].k);
                store((*grad_x_)[tokens[r]][h.head].block({plan_.cols}, {s}),
                      cast<bf16>(fma(k * h.weight - x * px, D, go)), {.cache = Cache::streaming});
                store((*grad_k_)[tokens[r]][h.head].block({plan_.cols}, {s}), cast<bf16>(D * (x * h.weight - k * pk)),
                      {.cache = Cache::streaming});
                grad_v[r] = fma(go, gate_of(r), grad_v[r].get());
                sum = fma(x * D, k, sum);
            }
            store(home, sum);
        };
        const auto stride = static_cast<std::size_t>(heads_);
        for (std::int64_t first = 0; unrolled() && first < heads_; first += heads_at_once) {
            std::vector<Head> together;
            const std::int64_t last = std::min(heads_, first + heads_at_once);
            for (std::int64_t i = first; i < last; ++i) together.push_back(load_head(tokens, s, Index(i)));
            for (std::int64_t i = first; i < last; ++i)
                add(together[static_cast<std::size_t>(i - first)],
                    [&](std::size_t r) { return gates[r * stride + static_cast<std::size_t>(i)]; });
        }
        if (!unrolled())
            k_.serial(heads_, [&](Index head) {
                add(load_head(tokens, s, head), [&](std::size_t r) { return load(factors.gate[r][head]); });
            });
        for (std::size_t r = 0; r < tokens.size(); ++r)
            store((*grad_v_)[tokens[r]].block({plan_.cols}, {s}), cast<bf16>(grad_v[r].get()),
                  {.cache = Cache::streaming});
    }

    Kernel& k_;
    std::int64_t heads_, hidden_;
    Plan plan_;
    GateTensors in_;
    Number clamp_;
    std::vector<Global<f32, 2>> saved_;
    std::optional<Global<bf16, 3>> go_, grad_x_, grad_k_;
    std::optional<Global<bf16, 2>> grad_v_;
    std::optional<Global<f32, 3>> partial_;
    Index block_{0}, first_{0}, end_{0};
};

GateShape check(const Stream& stream, const BackwardInputs& in, const BackwardOptions& o) {
    const GateShape shape = check_gate(name, stream, in.forward);
    check_dense(name, "grad_out", stream, in.grad_out, bf16, shape.rows());
    check_dense(name, "dot", stream, in.dot, f32, shape.scores());
    check_dense(name, "gate_score", stream, in.gate_score, f32, shape.scores());
    check_dense(name, "rstd_x", stream, in.rstd_x, f32, shape.scores());
    check_dense(name, "rstd_k", stream, in.rstd_k, f32, shape.scores());
    check_clamp(name, o.clamp_value);
    constexpr std::int64_t most = 65536;
    if (o.blocks < 0 || o.blocks > most)
        throw UsageError(fmt::format("{}: blocks is {}; it is from 1 to {}, or 0 for one block on each multiprocessor",
                                     name, o.blocks, most));
    return shape;
}

void launch(const Stream& stream, const GateShape& shape, const BackwardInputs& in, const BackwardOutputViews& out,
            const BackwardOptions& o) {
    const TensorView k = with_strides(in.forward.k), v = with_strides(in.forward.v);
    const bool aligned = rows_at_16_bytes({&in.forward.hidden_states, &k, &v, &in.forward.weight_fused, &in.grad_out,
                                           &out.grad_hidden_states, &out.grad_k, &out.grad_v, &out.grad_w_partial});
    const CompiledKernel& kernel =
        Engine::of(stream).kernel(stream, KernelId(name, {shape.heads, shape.hidden, aligned}),
                                  [&] { return gate_backward_program(shape.heads, shape.hidden, aligned); });
    kernel.launch(stream,
                  {in.forward.hidden_states, k, v, in.forward.weight_fused, in.grad_out, in.dot, in.gate_score,
                   in.rstd_x, in.rstd_k, out.grad_hidden_states, out.grad_k, out.grad_v, out.grad_w_partial},
                  {Scalar("clamp_value", o.clamp_value)});
}

}  // namespace

Program gate_backward_program(std::int64_t heads, std::int64_t hidden, bool aligned) {
    return record(name, [=](Kernel& k) { Backward(k, heads, hidden, aligned).record(); });
}

void gate_backward(const Stream& stream, const BackwardInputs& inputs, const BackwardOutputViews& outputs,
                   const BackwardOptions& options) {
    const GateShape shape = check(stream, inputs, options);
    check_dense(name, "grad_hidden_states", stream, outputs.grad_hidden_states, bf16, shape.rows());
    check_dense(name, "grad_k", stream, outputs.grad_k, bf16, shape.rows());
    check_dense(name, "grad_v", stream, outputs.grad_v, bf16, {shape.tokens, shape.hidden});
    check_kind(name, "grad_w_partial", stream, outputs.grad_w_partial, f32, 3);
    const std::int64_t rows = outputs.grad_w_partial.extents[0];
    if (rows < 1 || (options.blocks != 0 && options.blocks != rows))
        throw UsageError(fmt::format("{}: grad_w_partial has extents {}, but a row for each of {} blocks is needed",
                                     name, text_of(outputs.grad_w_partial.extents),
                                     std::max<std::int64_t>(1, options.blocks)));
    check_dense(name, "grad_w_partial", stream, outputs.grad_w_partial, f32, {rows, shape.heads, shape.hidden});
    launch(stream, shape, inputs, outputs, options);
}

BackwardOutputs gate_backward(const Stream& stream, const BackwardInputs& inputs, const BackwardOptions& options) {
    const GateShape shape = check(stream, inputs, options);
    const std::int64_t rows = options.blocks != 0 ? options.blocks : stream.device().target().multiprocessors;
    BackwardOutputs out{Tensor::empty(stream, bf16, shape.rows()), Tensor::empty(stream, bf16, shape.rows()),
                        Tensor::empty(stream, bf16, {shape.tokens, shape.hidden}),
                        Tensor::empty(stream, f32, {rows, shape.heads, shape.hidden})};
    launch(stream, shape, inputs, {out.grad_hidden_states, out.grad_k, out.grad_v, out.grad_w_partial}, options);
    return out;
}

}  // namespace tessera::engram

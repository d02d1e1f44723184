#include <memory>
#include <vector>

#include "kernels/engram/backward.hpp"

// Blocks that persist walk through their tokens one at a time, in pieces of their rows, as one pipeline over all pieces
// of all tokens. Piece s of item r = i / steps sums grad_out · v of the block's token r and, once those sums are known,
// differentiates token r − 1: so x and k come a token later than grad_out and v, and grad_out stays in shared memory
// until both have read it. The weight's gradient gathers in shared memory, every element with one thread.

namespace tessera::engram {

namespace {

using Row = Value<f32, 1>;
using Number = Value<f32, 0>;
constexpr int warp = 32;

class Staged {
public:
    Staged(Kernel& k, std::int64_t heads, std::int64_t hidden, const StagedPlan& plan)
        : k_(k),
          heads_(heads),
          hidden_(hidden),
          plan_(plan),
          cols_(plan.cols()),
          steps_(hidden / cols_),
          kept_(steps_ + plan.stages),
          t_(k, heads, hidden, true, plan.threads),
          gradient_(k.shared<f32>("grad_w", {heads, hidden})),
          go_(k.shared<bf16>("go", {kept_, heads, cols_})),
          v_(k.shared<bf16>("values", {plan.stages, cols_})),
          x_(k.shared<bf16>("xs", {plan.stages, heads, cols_})),
          keys_(k.shared<bf16>("ks", {plan.stages, heads, cols_})) {}

    void record() {
        each_piece_of_gradient([&](const Index& head, const Index& s) {
            store(gradient_[head].block({cols_}, {s}), full({cols_}, Number(0.0f)));
        });
        const Index tokens = t_.end - t_.first;
        State state(k_, heads_, plan_.threads);
        k_.pipelined(
            select(tokens > 0, (tokens + 1) * steps_, 0), {.stages = plan_.stages, .engine = plan_.way.engine},
            [&](Index i, Index slot) { issue(i, slot, tokens * steps_); },
            [&](Index i, Index slot) { run(i, slot, tokens * steps_, state); });
        each_piece_of_gradient([&](const Index& head, const Index& s) {
            store(t_.partial[t_.block][head].block({cols_}, {s}), load(gradient_[head].block({cols_}, {s}), row()));
        });
    }

private:
    LoadOptions row() const { return {.per_thread = {plan_.way.channels}}; }

    template <class Body>
    void each_piece_of_gradient(Body&& body) {
        k_.serial(heads_, [&](Index head) { k_.serial(steps_, [&](Index s) { body(head, s); }); });
    }

    /// Item r and piece s of a turn, and where its grad_out is kept.
    struct Turn {
        Index r, s, kept;
    };
    Turn turn(const Index& i) const {
        const auto n = cast<u32>(i);
        const auto steps = static_cast<std::uint32_t>(steps_), kept = static_cast<std::uint32_t>(kept_);
        return {cast<i64>(n / steps), cast<i64>(n % steps), cast<i64>(n % kept)};
    }

    void issue(const Index& i, const Index& slot, const Index& summed) {
        const Turn at = turn(i);
        const Index token = t_.first + at.r;
        k_.when(i < summed, [&] {
            copy(v_[slot].whole(), t_.in.v[token].block({cols_}, {at.s}));
            copy_heads(go_[at.kept], t_.go[token], at.s);
        });
        k_.when(i >= steps_, [&] {
            copy_heads(x_[slot], t_.in.x[token - 1], at.s);
            copy_heads(keys_[slot], t_.in.k[token - 1], at.s);
        });
    }
    void copy(const Piece<bf16, 1>& to, const Piece<bf16, 1>& from) const {
        copy_async(to, from, {.per_thread = {plan_.way.channels}});
    }
    /// By vectors each thread its own columns of every head, which it alone reads; in bulk all rows at once.
    void copy_heads(const Shared<bf16, 2>& to, const Global<bf16, 2>& from, const Index& s) const {
        if (plan_.way.engine == Copies::bulk) return copy_async(to.whole(), from.block({heads_, cols_}, {0, s}));
        for (std::int64_t head = 0; head < heads_; ++head) copy(to[head].whole(), from[head].block({cols_}, {s}));
    }

    /// What goes from turn to turn: the sums of the token being read, by thread, and what was saved of it; the factors
    /// of the token being differentiated, by head.
    struct State {
        template <int R>
        using Variables = std::vector<std::unique_ptr<Variable<f32, R>>>;
        Variables<2> sums, saved;
        Variables<0> D, px, pk, gate;
        Shared<f32, 2> parts, tiles[4];

        State(Kernel& k, std::int64_t heads, int threads)
            : parts(k.shared<f32>("parts", {heads, threads / warp})),
              tiles{k.shared<f32>("D", {1, heads}), k.shared<f32>("px", {1, heads}), k.shared<f32>("pk", {1, heads}),
                    k.shared<f32>("gate", {1, heads})} {
            for (int i = 0; i < 4; ++i) add(k, saved, full({1, heads}, Number(0.0f)));
            for (std::int64_t head = 0; head < heads; ++head) {
                add(k, sums, full({threads, 1}, Number(0.0f)));
                for (auto* factor : {&D, &px, &pk, &gate}) add(k, *factor, Number(0.0f));
            }
        }
        template <int R>
        static void add(Kernel& k, Variables<R>& variables, const Value<f32, R>& init) {
            variables.push_back(std::unique_ptr<Variable<f32, R>>(new Variable<f32, R>(k.variable(init))));
        }
    };

    void run(const Index& i, const Index& slot, const Index& summed, State& state) {
        const Turn at = turn(i);
        k_.when(at.s == 0, [&] { next_token(at.r, state); });
        std::vector<Row> weights;
        for (std::int64_t head = 0; head < heads_; ++head)
            weights.push_back(load(t_.in.w[head].block({cols_}, {at.s}), row()));
        k_.when(i < summed, [&] { sum(at, slot, state); });
        k_.when(i >= steps_, [&] { differentiate(turn(i - steps_), slot, weights, state); });
    }

    /// The sums of token r − 1 are whole: its factors, for all threads. What was saved of token r is on its way until
    /// its turn comes.
    void next_token(const Index& r, State& state) {
        std::vector<Value<f32, 2>> scores;
        for (auto& saved : state.saved) scores.push_back(saved->get());
        const Index token = t_.first + r;
        const auto next = t_.load_saved<1>(token, heads_);
        for (std::size_t i = 0; i < next.size(); ++i) *state.saved[i] = next[i];
        for (std::int64_t head = 0; head < heads_; ++head) {
            auto& sum = *state.sums[static_cast<std::size_t>(head)];
            const auto lanes = sum.get().squeeze(axis<1>).split(axis<0>, warp);
            store(state.parts[head].whole(), reduce_sum(lanes, axis<1>).squeeze(axis<1>));
            sum = full({plan_.threads, 1}, Number(0.0f));
        }
        const auto G = reduce_sum(load(state.parts.whole()), axis<1>).squeeze(axis<1>).unsqueeze(axis<0>);
        const GateFactors found = t_.factors(G, scores, token - 1, hidden_);
        const Value<f32, 2> values[] = {found.D, found.px, found.pk, found.gate};
        State::Variables<0>* const factors[] = {&state.D, &state.px, &state.pk, &state.gate};
        for (int f = 0; f < 4; ++f) store(state.tiles[f].whole(), values[f]);
        for (int f = 0; f < 4; ++f)
            for (std::int64_t head = 0; head < heads_; ++head)
                *(*factors[f])[static_cast<std::size_t>(head)] = load(state.tiles[f][0][head]);
    }

    void sum(const Turn& at, const Index& slot, State& state) {
        const Row v = cast<f32>(load(v_[slot].whole(), row()));
        for (std::int64_t head = 0; head < heads_; ++head) {
            auto& sum = *state.sums[static_cast<std::size_t>(head)];
            const Row go = cast<f32>(load(go_[at.kept][head].whole(), row()));
            sum = sum.get() + reduce_sum((go * v).split(axis<0>, plan_.way.channels), axis<1>);
        }
    }

    void differentiate(const Turn& at, const Index& slot, const std::vector<Row>& weights, State& state) {
        const Index token = t_.first + at.r;
        auto grad_v = k_.variable(full({cols_}, Number(0.0f)));
        for (std::int64_t head = 0; head < heads_; ++head) {
            const auto h = static_cast<std::size_t>(head);
            const Number D = state.D[h]->get(), px = state.px[h]->get(), pk = state.pk[h]->get();
            const Row go = cast<f32>(load(go_[at.kept][head].whole(), row()));
            const Row x = cast<f32>(load(x_[slot][head].whole(), row()));
            const Row k = cast<f32>(load(keys_[slot][head].whole(), row()));
            const Row& w = weights[h];
            const auto home = gradient_[head].block({cols_}, {at.s});
            store(t_.grad_x[token][head].block({cols_}, {at.s}), cast<bf16>(fma(k * w - x * px, D, go)));
            store(t_.grad_k[token][head].block({cols_}, {at.s}), cast<bf16>(D * (x * w - k * pk)));
            grad_v = fma(go, state.gate[h]->get(), grad_v.get());
            store(home, fma(x * D, k, load(home, row())));
        }
        store(t_.grad_v[token].block({cols_}, {at.s}), cast<bf16>(grad_v.get()));
    }

    Kernel& k_;
    std::int64_t heads_, hidden_;
    StagedPlan plan_;
    std::int64_t cols_, steps_, kept_;
    BackwardTensors t_;
    Shared<f32, 2> gradient_;
    Shared<bf16, 3> go_;
    Shared<bf16, 2> v_;
    Shared<bf16, 3> x_, keys_;
};

/// Shared memory of a block on both architectures.
constexpr std::int64_t most_bytes = 227 * 1024;

std::int64_t bytes_of(std::int64_t heads, std::int64_t hidden, const StagedPlan& plan) {
    const std::int64_t kept = hidden / plan.cols() + plan.stages;
    constexpr std::int64_t small = 3072;  // partial sums, factors, mbarriers, and what rounding to 128 bytes adds
    return heads * hidden * 4 + (kept * heads + plan.stages * (1 + 2 * heads)) * plan.cols() * 2 + small;
}

}  // namespace

std::optional<StagedPlan> staged_plan(std::int64_t heads, std::int64_t hidden, const BackwardWay& way) {
    constexpr std::int64_t most_heads = 8;  // written out one by one
    int threads = 1024 / way.channels;
    while (threads > warp && hidden % (threads * way.channels) != 0) threads /= 2;
    if (heads > most_heads || hidden % (threads * way.channels) != 0) return std::nullopt;
    for (int stages = 4; stages >= 2; --stages)
        if (const StagedPlan plan{threads, stages, way}; bytes_of(heads, hidden, plan) <= most_bytes) return plan;
    return std::nullopt;
}

Program gate_backward_staged_program(std::int64_t heads, std::int64_t hidden, const StagedPlan& plan) {
    return record("engram_gate_bwd", [&](Kernel& k) { Staged(k, heads, hidden, plan).record(); });
}

}  // namespace tessera::engram

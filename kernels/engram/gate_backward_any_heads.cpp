#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/engram/gate_backward_program.hpp"

// The weight's gradient gathers in the block's row of the result where it does not fit into shared memory.

namespace tessera::engram {

namespace {

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

class AnyHeads {
public:
    AnyHeads(Kernel& k, std::int64_t heads, std::int64_t hidden, bool aligned)
        : k_(k),
          heads_(heads),
          plan_(plan_of(heads, hidden, aligned)),
          t_(k, heads, hidden, aligned),
          block_((k.threads(plan_.threads, 1), k.grid(t_.blocks).x)),
          rounds_(t_, block_),
          gate_(k.shared<f32>("gate", {tokens_at_once, heads})) {}

    void record() {
        if (!plan_.gradient_in_shared) return record_with([&](const Index& head) { return t_.partial[block_][head]; });
        const auto gradient = k_.shared<f32>("grad_w", {heads_, plan_.steps * plan_.cols});
        record_with([&](const Index& head) { return gradient[head]; });
        each_head([&](const Index& head) {
            k_.serial(plan_.steps, [&](Index s) {
                store(t_.partial[block_][head].block({plan_.cols}, {s}), load(gradient[head].block({plan_.cols}, {s})));
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
        k_.serial(rounds_.count, [&](Index round) {
            const Index token = rounds_.token(round);
            std::vector<Index> tokens;
            for (std::int64_t r = 0; r < tokens_at_once; ++r) tokens.push_back(token + r);
            const Scores scores(t_, token);
            factors.set(t_, token, scores, sums_of(token, sums));
            store(gate_.whole(), scores.gate);
            const auto gates = unrolled() ? gates_of() : std::vector<Number>();
            k_.serial(plan_.steps, [&](Index s) { differentiate(tokens, s, factors, gates, gradient); });
        });
    }

    bool unrolled() const { return heads_ <= most_unrolled; }

    /// Partial sums of all heads by thread; or, of heads that are looped over, the sums.
    struct SumTiles {
        std::optional<Shared<f32, 3>> parts;
        std::optional<Shared<f32, 2>> whole;
        SumTiles(Kernel& k, const AnyHeads& b) {
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
            const auto go = load(t_.go.window({tokens_at_once, heads, plan_.cols}, {token, first_head, column}),
                                 {.per_thread = {1, 1, vector}});
            const auto v =
                load(t_.in.v.window({tokens_at_once, plan_.cols}, {token, column}), {.per_thread = {1, vector}});
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

    std::vector<Number> gates_of() const {
        std::vector<Number> gates;
        for (std::int64_t r = 0; r < tokens_at_once; ++r)
            for (std::int64_t head = 0; head < heads_; ++head) gates.push_back(load(gate_[r][head]));
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
        Head h{head, load(t_.in.w[head].block({plan_.cols}, {s})), {}};
        for (const Index& token : tokens)
            h.tokens.push_back({load(t_.go[token][head].block({plan_.cols}, {s}), {.cache = Cache::streaming}),
                                load(t_.in.x[token][head].block({plan_.cols}, {s}), {.cache = Cache::streaming}),
                                load(t_.in.k[token][head].block({plan_.cols}, {s}), {.cache = Cache::streaming})});
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
                store(t_.grad_x[tokens[r]][h.head].block({plan_.cols}, {s}),
                      cast<bf16>(fma(k * h.weight - x * px, D, go)), {.cache = Cache::streaming});
                store(t_.grad_k[tokens[r]][h.head].block({plan_.cols}, {s}), cast<bf16>(D * (x * h.weight - k * pk)),
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
                add(load_head(tokens, s, head), [&](std::size_t r) { return load(gate_[r][head]); });
            });
        for (std::size_t r = 0; r < tokens.size(); ++r)
            store(t_.grad_v[tokens[r]].block({plan_.cols}, {s}), cast<bf16>(grad_v[r].get()),
                  {.cache = Cache::streaming});
    }

    Kernel& k_;
    std::int64_t heads_;
    Plan plan_;
    BackwardTensors t_;
    Index block_;
    Rounds rounds_;
    Shared<f32, 2> gate_;
};

}  // namespace

void record_any_heads(Kernel& k, std::int64_t heads, std::int64_t hidden, bool aligned) {
    AnyHeads(k, heads, hidden, aligned).record();
}

}  // namespace tessera::engram

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "kernels/engram/gate_backward_program.hpp"

// A unit is all heads of some channels, shared out among all threads: few are idle in the last one. Units and steps are
// written out, so that some are under way while others are worked on, across the sums over the block and from one round
// to the next.

namespace tessera::engram {

namespace {

constexpr std::int64_t vector = 4;
/// Units that are asked for ahead of the one that is worked on; and ahead of the sums.
constexpr std::int64_t units_ahead = 3, units_ahead_of_sums = 2;
/// Steps of the next round's dot products that are asked for while the last units are worked on.
constexpr std::int64_t steps_ahead = 2;
constexpr std::int64_t most_units = 16, most_steps = 8;

struct Plan {
    int threads;
    std::int64_t unit, units;  // channels of a unit: each thread has a vector of one head, of both tokens
    std::int64_t step, steps;  // channels of a step: each thread has a vector of all heads, of one token
};
Plan plan_of(std::int64_t heads, std::int64_t hidden) {
    int threads = 128;
    while (threads < 512 && hidden > threads * vector) threads *= 2;
    const std::int64_t unit = threads * vector / heads, step = threads * vector / tokens_at_once;
    return {threads, unit, ceil_div(hidden, unit), step, ceil_div(hidden, step)};
}

class FewHeads {
public:
    FewHeads(Kernel& k, std::int64_t heads, std::int64_t hidden)
        : k_(k),
          plan_(plan_of(heads, hidden)),
          t_(k, heads, hidden, true),
          block_((k.threads(plan_.threads, 1), k.grid(t_.blocks).x)),
          rounds_(t_, block_),
          factors_(k, heads),
          gradient_(k.shared<f32>("grad_w", {heads, plan_.units * plan_.unit})),
          parts_(k.shared<f32>("parts", {tokens_at_once, heads, plan_.step / vector})) {}

    void record() {
        const auto zero = full({t_.heads, plan_.unit}, Value<f32, 0>(0.0f));
        k_.serial(plan_.units, [&](const Index& u) { store(gradient_.block({t_.heads, plan_.unit}, {0, u}), zero); });
        for (std::int64_t s = 0; s < std::min(steps_ahead, plan_.steps); ++s)
            first_steps_.emplace_back(k_, load_step(rounds_.first, s));
        k_.serial(rounds_.count, [&](const Index& round) { record_round(rounds_.token(round)); });
        k_.serial(plan_.units, [&](const Index& u) {
            store(t_.partial[block_].block({t_.heads, plan_.unit}, {0, u}),
                  load(gradient_.block({t_.heads, plan_.unit}, {0, u}), run()));
        });
    }

private:
    static LoadOptions run(Cache cache = Cache::normal) { return {.per_thread = {1, vector}, .cache = cache}; }

    void record_round(const Index& token) {
        // 0, which the compiler cannot tell: it would keep all weights in registers, and hardly any load ahead.
        const Index weight_row = token / (std::int64_t{1} << 40);
        const Scores scores(t_, token);
        const auto sums = dot_products(token);
        std::deque<Unit> under_way;
        std::int64_t asked = 0;
        const auto ask = [&](std::int64_t end) {
            for (; asked < std::min(end, plan_.units); ++asked) under_way.push_back(load_unit(token, asked));
        };
        ask(units_ahead_of_sums);
        store(parts_.whole(), sums);
        const auto parts = load(parts_.whole(), {.per_thread = {1, 1, 1}, .lanes = 32});
        factors_.set(t_, token, scores, reduce_sum(parts, axis<2>).squeeze(axis<2>));
        for (std::int64_t u = 0; u < plan_.units; ++u) {
            ask(u + units_ahead);
            if (u == std::max<std::int64_t>(0, plan_.units - units_ahead)) ask_for_first_steps(token + rounds_.stride);
            differentiate(under_way.front(), token, weight_row, u);
            under_way.pop_front();
        }
    }

    struct Step {
        Value<bf16, 3> go;
        Value<bf16, 2> v;
    };
    /// A step of the next round's.
    struct KeptStep {
        Variable<bf16, 3> go;
        Variable<bf16, 2> v;
        KeptStep(Kernel& k, const Step& s) : go(k.variable(s.go)), v(k.variable(s.v)) {}
    };
    /// Without `kept` grad_out's second read often misses the L2 cache (655 µs instead of 643 at H = 7168).
    Step load_step(const Index& token, std::int64_t s) const {
        return {load(t_.go.window({tokens_at_once, t_.heads, plan_.step}, {token, 0, s * plan_.step}),
                     {.per_thread = {1, t_.heads, vector}, .cache = Cache::kept}),
                load(t_.in.v.window({tokens_at_once, plan_.step}, {token, s * plan_.step}), run(Cache::streaming))};
    }
    void ask_for_first_steps(const Index& token) {
        std::int64_t s = 0;
        for (KeptStep& kept : first_steps_) {
            const Step step = load_step(token, s++);
            kept.go = step.go, kept.v = step.v;
        }
    }

    /// Σ grad_out · v, each thread its own channels: [tokens_at_once, heads, threads]. Stores grad_v.
    Value<f32, 3> dot_products(const Index& token) {
        const auto gates = load(t_.gate.window({tokens_at_once, t_.heads}, {token, 0})).unsqueeze(axis<2>);
        std::optional<Value<f32, 4>> total;
        for (std::int64_t s = 0; s < plan_.steps; ++s) {
            const auto kept = static_cast<std::size_t>(s);
            const Step step = kept < first_steps_.size() ? Step{first_steps_[kept].go.get(), first_steps_[kept].v.get()}
                                                         : load_step(token, s);
            const auto go = cast<f32>(step.go);
            const auto products = go * cast<f32>(step.v).unsqueeze(axis<1>);
            const auto sum = reduce_sum(products.split(axis<2>, vector), axis<3>);
            total = total ? *total + sum : sum;
            store(t_.grad_v.window({tokens_at_once, plan_.step}, {token, s * plan_.step}),
                  cast<bf16>(reduce_dot(go, gates, axis<1>).squeeze(axis<1>)), {.cache = Cache::streaming});
        }
        return total->squeeze(axis<3>);
    }

    /// [heads, channels] of each token.
    struct Unit {
        std::vector<Value<bf16, 2>> go, x, k;
    };
    Unit load_unit(const Index& token, std::int64_t u) const {
        const auto of = [&](const Global<bf16, 3>& tensor, std::int64_t r) {
            return load(tensor[token + r].window({t_.heads, plan_.unit}, {0, u * plan_.unit}), run(Cache::streaming));
        };
        Unit unit;
        for (std::int64_t r = 0; r < tokens_at_once; ++r)
            unit.x.push_back(of(t_.in.x, r)), unit.k.push_back(of(t_.in.k, r)), unit.go.push_back(of(t_.go, r));
        return unit;
    }
    void differentiate(const Unit& unit, const Index& token, const Index& weight_row, std::int64_t u) {
        const std::int64_t first = u * plan_.unit;
        const auto home = gradient_.window({t_.heads, plan_.unit}, {0, first});
        const auto weight = load(t_.in.w.window({t_.heads, plan_.unit}, {weight_row, first}), run());
        Pairs sum = load(home, run());
        for (std::int64_t r = 0; r < tokens_at_once; ++r) {
            const auto i = static_cast<std::size_t>(r);
            const auto of = [&](const Shared<f32, 2>& factor) { return load(factor[r].whole()).unsqueeze(axis<1>); };
            const auto D = of(factors_.D), px = of(factors_.px), pk = of(factors_.pk);
            const auto go = cast<f32>(unit.go[i]), x = cast<f32>(unit.x[i]), k = cast<f32>(unit.k[i]);
            const auto put = [&](const Global<bf16, 3>& tensor, const Value<f32, 2>& value) {
                store(tensor[token + r].window({t_.heads, plan_.unit}, {0, first}), cast<bf16>(value),
                      {.cache = Cache::streaming});
            };
            put(t_.grad_x, fma(k * weight - x * px, D, go));
            put(t_.grad_k, D * (x * weight - k * pk));
            sum = fma(x * D, k, sum);
        }
        store(home, sum);
    }

    Kernel& k_;
    Plan plan_;
    BackwardTensors t_;
    Index block_;
    Rounds rounds_;
    Factors factors_;
    Shared<f32, 2> gradient_;
    Shared<f32, 3> parts_;
    std::deque<KeptStep> first_steps_;
};

}  // namespace

bool are_few_heads(std::int64_t heads, std::int64_t hidden, bool aligned) {
    if (!aligned || (heads != 1 && heads != 2 && heads != 4)) return false;
    const Plan plan = plan_of(heads, hidden);
    return plan.units <= most_units && plan.steps <= most_steps;
}

void record_few_heads(Kernel& k, std::int64_t heads, std::int64_t hidden) { FewHeads(k, heads, hidden).record(); }

}  // namespace tessera::engram

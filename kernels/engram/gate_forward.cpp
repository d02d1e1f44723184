#include <cmath>
#include <fmt/format.h>
#include <vector>

#include "dsl/base/error.hpp"
#include "kernels/engram/check.hpp"
#include "kernels/engram/gate.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

// A block takes one head of a few tokens, one after the other: the head's weight stays in registers, and so does the
// row of x between the sums over it and the output. Rows longer than that are read twice.

namespace tessera::engram {

namespace {

constexpr const char* name = "engram_gate_fwd";
constexpr std::int64_t tokens_of_block = 4;

/// How a row lies over a block: `steps` tiles of `cols` columns.
struct RowPlan {
    int threads;
    std::int64_t cols, steps;
    bool held;  // in registers
};
RowPlan plan_row(std::int64_t hidden, bool aligned) {
    constexpr std::int64_t most_steps = 8;
    const std::int64_t vector = aligned ? 4 : 1;
    int threads = 64;
    while (threads < 1024 && ceil_div(hidden, threads * vector) > most_steps) threads *= 2;
    const std::int64_t steps = ceil_div(hidden, threads * vector);
    return {threads, threads * vector, steps, steps <= most_steps};
}

struct Scores {
    Value<f32, 1> dot, gate, rstd_x, rstd_k;
};

/// From the three sums over a row. The clamp is a lower bound that lets NaN pass.
Scores scores_of(const Value<f32, 1>& xx, const Value<f32, 1>& kk, const Value<f32, 1>& dot, std::int64_t hidden,
                 const Value<f32, 0>& eps, const Value<f32, 0>& clamp) {
    const auto length = static_cast<float>(hidden);
    const auto rx = rsqrt(xx / length + eps), rk = rsqrt(kk / length + eps);
    const auto s = dot * rx * rk * inverse_root(hidden);
    const auto root = sqrt(select(~(abs(s) < clamp), abs(s), clamp));
    const auto q = bitcast<f32>(bitcast<u32>(root) | (bitcast<u32>(s) & 0x80000000u));
    return {dot, 1.0f / (1.0f + exp(-q)), rx, rk};
}

/// One head of one token. w: the head's weight, if it is held.
class Row {
public:
    Row(Kernel& k, const RowPlan& plan, const GateTensors& in, const Index& token, const Index& head)
        : k_(k), plan_(plan), x_(in.x[token][head]), key_(in.k[token][head]), v_(in.v[token]), w_(in.w[head]) {}

    /// Σ x², Σ k², Σ x · w · k
    std::vector<Value<f32, 1>> sums(const std::vector<Value<f32, 1>>& w) {
        const auto zero = full({plan_.cols}, Value<f32, 0>(0.0f));
        auto xx = k_.variable(zero), kk = k_.variable(zero), dot = k_.variable(zero);
        const auto add = [&](const Value<bf16, 1>& x, const Value<bf16, 1>& key, const Value<f32, 1>& weight) {
            const auto a = cast<f32>(x), b = cast<f32>(key);
            xx = fma(a, a, xx.get());
            kk = fma(b, b, kk.get());
            dot = fma(a * weight, b, dot.get());
        };
        if (plan_.held) {
            std::vector<Value<bf16, 1>> keys;
            for (std::int64_t s = 0; s < plan_.steps; ++s) {
                held_x_.push_back(load(x_.block({plan_.cols}, {s})));
                keys.push_back(load(key_.block({plan_.cols}, {s})));
            }
            for (std::int64_t s = 0; s < plan_.steps; ++s) held_v_.push_back(load(v_.block({plan_.cols}, {s})));
            for (std::size_t s = 0; s < keys.size(); ++s) add(held_x_[s], keys[s], w[s]);
        } else {
            k_.serial(plan_.steps, [&](Index s) {
                add(load(x_.block({plan_.cols}, {s})), load(key_.block({plan_.cols}, {s})),
                    load(w_.block({plan_.cols}, {s})));
            });
        }
        return {reduce_sum(xx.get(), axis<0>), reduce_sum(kk.get(), axis<0>), reduce_sum(dot.get(), axis<0>)};
    }

    void put(const Global<bf16, 1>& out, const Value<f32, 1>& gate) {
        const auto mix = [&](const Value<bf16, 1>& x, const Value<bf16, 1>& v, const Extent& s) {
            store(out.block({plan_.cols}, {s}), cast<bf16>(cast<f32>(x) + gate * cast<f32>(v)));
        };
        if (plan_.held)
            for (std::size_t s = 0; s < held_x_.size(); ++s) mix(held_x_[s], held_v_[s], s);
        else
            k_.serial(plan_.steps,
                      [&](Index s) { mix(load(x_.block({plan_.cols}, {s})), load(v_.block({plan_.cols}, {s})), s); });
    }

private:
    Kernel& k_;
    const RowPlan& plan_;
    Global<bf16, 1> x_, key_, v_;
    Global<f32, 1> w_;
    std::vector<Value<bf16, 1>> held_x_, held_v_;
};

void check_options(const GateOptions& o) {
    if (!(o.eps >= 0) || std::isinf(o.eps))
        throw UsageError(fmt::format("{}: eps is {}; it is a number of at least 0", name, o.eps));
    check_clamp(name, o.clamp_value);
}

void launch(const Stream& stream, const GateShape& shape, const GateInputs& in, const GateOutputViews& out,
            const GateOptions& o) {
    if (shape.tokens == 0) return;
    const TensorView k = with_strides(in.k), v = with_strides(in.v);
    const bool aligned = rows_at_16_bytes({&in.hidden_states, &k, &v, &in.weight_fused, &out.output});
    const CompiledKernel& kernel =
        Engine::of(stream).kernel(stream, KernelId(name, {shape.heads, shape.hidden, o.save, aligned}),
                                  [&] { return gate_forward_program(shape.heads, shape.hidden, o.save, aligned); });
    const TensorRef tensors[] = {in.hidden_states, k,          v,         in.weight_fused, out.output, out.dot,
                                 out.gate_score,   out.rstd_x, out.rstd_k};
    const Scalar scalars[] = {Scalar("eps", o.eps), Scalar("clamp_value", o.clamp_value)};
    kernel.launch(stream, std::span<const TensorRef>(tensors, o.save ? 9 : 5), scalars);
}

}  // namespace

Program gate_forward_program(std::int64_t heads, std::int64_t hidden, bool save, bool aligned) {
    return record(name, [=](Kernel& k) {
        const RowPlan plan = plan_row(hidden, aligned);
        const GateTensors in(k, heads, hidden, aligned);
        const auto out = k.output<bf16>("out", {in.tokens, heads, hidden}, {.align = aligned ? 16 : 2});
        std::vector<Global<f32, 2>> saved;
        for (const char* score : {"dot", "gate_score", "rstd_x", "rstd_k"})
            if (save) saved.push_back(k.output<f32>(score, {in.tokens, heads}, {.align = 4}));
        const auto eps = k.scalar<f32>("eps"), clamp = k.scalar<f32>("clamp_value");
        k.threads(plan.threads);
        const auto [group, head] = k.grid(ceil_div(in.tokens, tokens_of_block), heads);

        std::vector<Value<f32, 1>> w;
        for (std::int64_t s = 0; plan.held && s < plan.steps; ++s)
            w.push_back(load(in.w[head].block({plan.cols}, {s})));
        const Index first = group * tokens_of_block, last = min(first + tokens_of_block, in.tokens);
        k.serial(last - first, [&](Index i) {
            const Index token = first + i;
            Row row(k, plan, in, token, head);
            const auto sums = row.sums(w);
            const Scores scores = scores_of(sums[0], sums[1], sums[2], hidden, eps, clamp);
            row.put(out[token][head], scores.gate);
            if (!save) return;
            const Value<f32, 1> values[] = {scores.dot, scores.gate, scores.rstd_x, scores.rstd_k};
            for (std::size_t j = 0; j < 4; ++j) store(saved[j][token].block({1}, {head}), values[j]);
        });
    });
}

void gate_forward(const Stream& stream, const GateInputs& inputs, const GateOutputViews& outputs,
                  const GateOptions& options) {
    const GateShape shape = check_gate(name, stream, inputs);
    check_options(options);
    check_dense(name, "output", stream, outputs.output, bf16, shape.rows());
    if (options.save) {
        check_dense(name, "dot", stream, outputs.dot, f32, shape.scores());
        check_dense(name, "gate_score", stream, outputs.gate_score, f32, shape.scores());
        check_dense(name, "rstd_x", stream, outputs.rstd_x, f32, shape.scores());
        check_dense(name, "rstd_k", stream, outputs.rstd_k, f32, shape.scores());
    }
    launch(stream, shape, inputs, outputs, options);
}

GateOutputs gate_forward(const Stream& stream, const GateInputs& inputs, const GateOptions& options) {
    const GateShape shape = check_gate(name, stream, inputs);
    check_options(options);
    const auto score = [&] { return options.save ? Tensor::empty(stream, f32, shape.scores()) : Tensor(); };
    GateOutputs out{Tensor::empty(stream, bf16, shape.rows()), score(), score(), score(), score()};
    launch(stream, shape, inputs, {out.output, out.dot, out.gate_score, out.rstd_x, out.rstd_k}, options);
    return out;
}

}  // namespace tessera::engram

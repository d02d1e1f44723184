#include <algorithm>

#include "kernels/quant/scale.hpp"
#include "kernels/swiglu/activation.hpp"
#include "kernels/swiglu/check.hpp"
#include "runtime/engine.hpp"

// One row a block, in steps; only the dot product of the weight's gradient lives across them.

namespace tessera::swiglu {

namespace {

constexpr std::int64_t elements_per_thread = 8;

/// Threads that walk a row with the least padding; of equals the nearest to 128.
int choose_threads(std::int64_t hidden, std::int64_t group) {
    int best = 0;
    std::int64_t least = 0;
    for (const int threads : {128, 256, 64, 32}) {
        const std::int64_t cols = threads * elements_per_thread;
        if (cols % group != 0 || (best != 0 && align_up(hidden, cols) >= least)) continue;
        best = threads;
        least = align_up(hidden, cols);
    }
    return best;
}

/// What a step makes of its columns, as [1, groups, group].
struct Step {
    Value<f32, 3> out, gate_grad, linear_grad, dot;
};

/// x / d and 1 / d with d = 1 + e^(−x).
struct Quotients {
    Value<f32, 3> x_by_d, one_by_d;
};
Quotients divided(const Value<f32, 3>& x) {
    const Divisor d(x);
    return {d.divide(x), d.inverse()};
}
/// The same of columns that `threads` threads hold in vectors: warps without an x below −60 need no more than bounded
/// divisions.
Quotients divided(Kernel& k, const Value<f32, 3>& x, std::int64_t threads) {
    auto by_d = k.variable(x), one = k.variable(x);
    k.when(is_bounded_by_warps(x.merge(axis<1>), threads, elements_per_thread), [&] {
         const auto d = exp(-x) + 1.0f;
         by_d = divide_bounded(x, d);
         one = divide_bounded(1.0f, d);
     }).otherwise([&] {
        const Quotients q = divided(x);
        by_d = q.x_by_d;
        one = q.one_by_d;
    });
    return {by_d.get(), one.get()};
}

/// The formulas of backward_and_per_token_cast; w is the row's weight.
template <class Divide>
Step differentiate(Value<f32, 3> x, Value<f32, 3> y, const Value<f32, 3>& g, const Value<f32, 0>& w,
                   const std::optional<Value<f32, 0>>& clamp, Divide&& quotients) {
    std::optional<Cut<3>> cut_x, cut_y;
    if (clamp) {
        cut_x = cut_above(x, *clamp);
        cut_y = cut_both(y, *clamp);
        x = cut_x->value;
        y = cut_y->value;
    }
    const Quotients q = quotients(x);
    const auto a = q.x_by_d * y;
    const auto s = q.one_by_d;
    const auto h = g * w * s;
    auto gx = h * y * fma(x, 1.0f - s, 1.0f);
    auto gy = h * x;
    if (clamp) {
        gx = select(~cut_x->beyond, gx, 0.0f);
        gy = select(~cut_y->beyond, gy, 0.0f);
    }
    return {a * w, gx, gy, g * a};
}

}  // namespace

Program backward_and_per_token_cast_program(std::int64_t hidden, const BackwardOptions& o, bool aligned) {
    check_backward_options(hidden, o);
    return record("swiglu_backward_and_per_token_cast", [=](Kernel& k) {
        const std::int64_t group = o.num_per_channels, all_groups = hidden / group;
        const Dim tokens = k.dim("tokens"), slots = k.dim("slots");
        const auto at = [&](int align) { return aligned ? 16 : align; };
        const auto x = k.input<e4m3>("x", {2, tokens, hidden}, {.align = at(1), .strides = {hidden, 2 * hidden, 1}});
        const auto x_sf =
            k.input<f32>("x_sf", {2, tokens, all_groups}, {.align = 4, .strides = {all_groups, 2 * all_groups, 1}});
        const auto grad_out = k.input<bf16>("grad_out", {tokens, hidden}, {.align = at(2)});
        const auto weight = k.input<f32>("weight", {slots}, {.align = 4});
        const auto positions = k.input<i32>("pos_to_token_topk", {tokens}, {.align = 4});
        const auto rows = k.input<i32>("token_topk_to_pos", {slots}, {.align = 4});
        const auto out = k.output<bf16>("out", {tokens, hidden}, {.align = at(2)});
        const auto grad_q =
            k.output<e4m3>("x_grad_q", {2, tokens, hidden}, {.align = at(1), .strides = {hidden, 2 * hidden, 1}});
        const auto grad_sf = k.output<f32>("x_grad_sf", {2, tokens, all_groups},
                                           {.align = 4, .strides = {all_groups, 2 * all_groups, 1}});
        const auto grad =
            k.output<bf16>("x_grad", {2, tokens, hidden}, {.align = at(2), .strides = {hidden, 2 * hidden, 1}});
        const auto weight_grad = k.output<f32>("weight_grad", {slots}, {.align = 4});
        std::optional<Value<f32, 0>> clamp;
        if (o.swiglu_clamp_value) clamp = k.scalar<f32>("swiglu_clamp_value");

        const int threads = choose_threads(hidden, group);
        const std::int64_t cols = threads * elements_per_thread, groups = cols / group;
        // 64 registers suffice, 72 with a clamp, and memory wants the warps.
        k.threads(threads, aligned ? (clamp ? 896 : 1024) / threads : 0);
        const auto [row] = k.grid(tokens);
        const Index slot = cast<i64>(load(positions[row]));  // a negative one reads weight 0 and writes nothing
        const auto w = load(weight[slot]);

        auto dot = k.variable(full({1, cols}, Value<f32, 0>(0.0f)));
        k.serial(ceil_div(hidden, cols), [&](Index step) {
            const auto half = [&](std::int64_t i) {
                const auto scale = load(x_sf[i].block({1, groups}, {row, step})).unsqueeze(axis<2>);
                return cast<f32>(load(x[i].block({1, cols}, {row, step}))).split(axis<1>, group) * scale;
            };
            const auto g = cast<f32>(load(grad_out.block({1, cols}, {row, step}))).split(axis<1>, group);
            const auto gate = half(0), linear = half(1);
            const Step s = differentiate(gate, linear, g, w, clamp, [&](const Value<f32, 3>& v) {
                return aligned ? divided(k, v, threads) : divided(v);
            });
            dot = dot.get() + s.dot.merge(axis<1>);
            store(out.block({1, cols}, {row, step}), cast<bf16>(s.out.merge(axis<1>)));
            const auto put = [&](std::int64_t i, const Value<f32, 3>& v) {
                store(grad[i].block({1, cols}, {row, step}), cast<bf16>(v.merge(axis<1>)));
                const auto scales =
                    quant::scales_of(reduce_max(abs(v), axis<2>).squeeze(axis<2>), quant::limits_of(e4m3), o.round_sf);
                store(grad_sf[i].block({1, groups}, {row, step}), scales.sf);
                store(grad_q[i].block({1, cols}, {row, step}),
                      cast<e4m3>((v * scales.inv.unsqueeze(axis<2>)).merge(axis<1>)));
            };
            put(0, s.gate_grad);
            put(1, s.linear_grad);
        });
        const Index target = select(load(rows[slot]) < 0, slots, slot);
        store(weight_grad.window({1}, {target}), reduce_sum(dot.get(), axis<1>).squeeze(axis<1>));
    });
}

namespace {

/// Fills an f32 tensor with 0.
Program zero_program() {
    return record("swiglu_zero", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto y = k.output<f32>("y", {n}, {.align = 4});
        constexpr std::int64_t cols = 1024;
        k.threads(256);
        const auto [m] = k.grid(ceil_div(n, cols));
        store(y.block({cols}, {m}), full({cols}, Value<f32, 0>(0.0f)));
    });
}

bool all_aligned(std::initializer_list<const TensorView*> views) {
    return std::all_of(views.begin(), views.end(),
                       [](const TensorView* v) { return reinterpret_cast<std::uintptr_t>(v->data) % 16 == 0; });
}

void launch(const Stream& stream, const BackwardArguments& a, const BackwardInputs& in,
            const BackwardOutputs<TensorView>& out, const BackwardOptions& options) {
    const bool aligned = all_aligned({&in.x, &in.grad_out, &out.out, &out.x_grad_q, &out.x_grad});
    const KernelId id("swiglu_backward_and_per_token_cast", {a.hidden, options.num_per_channels, options.round_sf,
                                                             options.swiglu_clamp_value.has_value(), aligned});
    const CompiledKernel& kernel = Engine::of(stream).kernel(
        stream, id, [&] { return backward_and_per_token_cast_program(a.hidden, options, aligned); });
    const TensorView tensors[] = {
        halves(in.x, a.tokens, a.hidden),
        halves(in.x_sf, a.tokens, a.groups),
        TensorView::of(in.grad_out.device, in.grad_out.data, bf16, {a.tokens, a.hidden}),
        flat(in.weight),
        in.pos_to_token_topk,
        flat(in.token_topk_to_pos),
        out.out,
        halves(out.x_grad_q, a.tokens, a.hidden),
        halves(out.x_grad_sf, a.tokens, a.groups),
        halves(out.x_grad, a.tokens, a.hidden),
        flat(out.weight_grad),
    };
    const Scalar clamp("swiglu_clamp_value", options.swiglu_clamp_value.value_or(0.0f));
    kernel.launch(stream, tensors, std::span<const Scalar>(&clamp, options.swiglu_clamp_value ? 1 : 0));
}

}  // namespace

void backward_and_per_token_cast(const Stream& stream, const BackwardInputs& inputs,
                                 const BackwardOutputs<TensorView>& outputs, const BackwardOptions& options) {
    const BackwardArguments a = check_backward(stream, inputs, options);
    check_backward_outputs(a, outputs, stream);
    // Slots without a row here get no other value.
    if (a.slots.count() > 0)
        Engine::of(stream)
            .kernel(stream, {"swiglu_zero", {}}, zero_program)
            .launch(stream, {flat(outputs.weight_grad)});
    if (a.tokens > 0) launch(stream, a, inputs, outputs, options);
}

BackwardOutputs<Tensor> backward_and_per_token_cast(const Stream& stream, const BackwardInputs& inputs,
                                                    const BackwardOptions& options) {
    const BackwardArguments a = check_backward(stream, inputs, options);
    BackwardOutputs<Tensor> result{
        Tensor::empty(stream, bf16, {a.tokens, a.hidden}), Tensor::empty(stream, e4m3, {a.tokens, 2 * a.hidden}),
        Tensor::empty(stream, f32, {a.tokens, 2 * a.groups}), Tensor::empty(stream, bf16, {a.tokens, 2 * a.hidden}),
        Tensor::empty(stream, f32, a.slots)};
    backward_and_per_token_cast(
        stream, inputs,
        BackwardOutputs<TensorView>{result.out, result.x_grad_q, result.x_grad_sf, result.x_grad, result.weight_grad},
        options);
    return result;
}

}  // namespace tessera::swiglu

#include <algorithm>

#include "kernels/quant/scale.hpp"
#include "kernels/swiglu/activation.hpp"
#include "kernels/swiglu/check.hpp"
#include "runtime/engine.hpp"

// One row a block, in steps; of what they make only the dot product of the weight's gradient lives across them.

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

/// The parameters, and what is done with a row: the next steps of it are under way to shared memory while the block
/// works on one.
class Row {
public:
    Row(Kernel& k, std::int64_t hidden, const BackwardOptions& o, bool aligned)
        : k_(k),
          hidden_(hidden),
          group_(o.num_per_channels),
          groups_(hidden / group_),
          aligned_(aligned),
          round_(o.round_sf),
          tokens_(k.dim("tokens")),
          slots_(k.dim("slots")),
          x_(k.input<e4m3>("x", {2, tokens_, hidden}, {.align = align(1), .strides = {hidden, 2 * hidden, 1}})),
          x_sf_(k.input<f32>("x_sf", {2, tokens_, groups_}, {.align = 4, .strides = {groups_, 2 * groups_, 1}})),
          grad_out_(k.input<bf16>("grad_out", {tokens_, hidden}, {.align = align(2)})),
          weight_(k.input<f32>("weight", {slots_}, {.align = 4})),
          positions_(k.input<i32>("pos_to_token_topk", {tokens_}, {.align = 4})),
          rows_(k.input<i32>("token_topk_to_pos", {slots_}, {.align = 4})),
          out_(k.output<bf16>("out", {tokens_, hidden}, {.align = align(2)})),
          grad_q_(k.output<e4m3>("x_grad_q", {2, tokens_, hidden},
                                 {.align = align(1), .strides = {hidden, 2 * hidden, 1}})),
          grad_sf_(
              k.output<f32>("x_grad_sf", {2, tokens_, groups_}, {.align = 4, .strides = {groups_, 2 * groups_, 1}})),
          grad_(
              k.output<bf16>("x_grad", {2, tokens_, hidden}, {.align = align(2), .strides = {hidden, 2 * hidden, 1}})),
          weight_grad_(k.output<f32>("weight_grad", {slots_}, {.align = 4})) {
        if (o.swiglu_clamp_value) clamp_ = k.scalar<f32>("swiglu_clamp_value");
    }

    void record() {
        // 64 registers suffice, 80 with a clamp, and memory wants the warps.
        k_.threads(threads_, aligned_ ? (clamp_ ? 768 : 1024) / threads_ : 0);
        row_ = k_.grid(tokens_).x;
        const Index slot = cast<i64>(load(positions_[row_]));  // a negative one reads weight 0 and writes nothing
        w_ = load(weight_[slot]);
        const auto own_row = load(rows_[slot]);
        k_.dependent_launch();  // the kernel ahead clears the weight's gradient
        auto dot = k_.variable(full({1, cols_}, Value<f32, 0>(0.0f)));
        if (aligned_)
            walk_ahead(dot);
        else
            k_.serial(steps(), [&](Index step) { differentiate_step(step, loaded(step), dot); });
        const Index target = select(own_row < 0, slots_, slot);
        store(weight_grad_.window({1}, {target}), reduce_sum(dot.get(), axis<1>).squeeze(axis<1>));
    }

private:
    /// Of one step, as [1, columns] and [1, groups].
    struct Operands {
        Value<bf16, 2> grad;
        Value<e4m3, 2> x[2];
        Value<f32, 2> sf[2];
    };
    using Dot = Variable<f32, 2>;

    int align(int unaligned) const { return aligned_ ? 16 : unaligned; }
    std::int64_t steps() const { return ceil_div(hidden_, cols_); }
    std::int64_t step_groups() const { return cols_ / group_; }

    Operands loaded(const Index& step) const {
        const auto x = [&](std::int64_t i) { return load(x_[i].block({1, cols_}, {row_, step})); };
        const auto sf = [&](std::int64_t i) { return load(x_sf_[i].block({1, step_groups()}, {row_, step})); };
        return {load(grad_out_.block({1, cols_}, {row_, step})), {x(0), x(1)}, {sf(0), sf(1)}};
    }

    void walk_ahead(Dot& dot) {
        constexpr int stages = 3;
        const auto grads = k_.shared<bf16>("grads", {stages, 1, cols_});
        const auto codes = k_.shared<e4m3>("codes", {stages, 2, 1, cols_});
        const auto scales = k_.shared<f32>("scales", {stages, 2, 1, step_groups()});
        const auto issue = [&](const Index& step, const Index& stage) {
            copy_async(grads[stage].whole(), grad_out_.block({1, cols_}, {row_, step}));
            for (int i = 0; i < 2; ++i) {
                copy_async(codes[stage][i].whole(), x_[i].block({1, cols_}, {row_, step}));
                copy_async(scales[stage][i].whole(), x_sf_[i].block({1, step_groups()}, {row_, step}));
            }
        };
        k_.pipelined(steps(), {.stages = stages}, issue, [&](const Index& step, const Index& stage) {
            const auto x = [&](int i) { return load(codes[stage][i].whole()); };
            const auto sf = [&](int i) { return load(scales[stage][i].whole()); };
            differentiate_step(step, {load(grads[stage].whole()), {x(0), x(1)}, {sf(0), sf(1)}}, dot);
        });
    }

    void differentiate_step(const Index& step, const Operands& in, Dot& dot) {
        const auto half = [&](int i) {
            return cast<f32>(in.x[i]).split(axis<1>, group_) * in.sf[i].unsqueeze(axis<2>);
        };
        const auto g = cast<f32>(in.grad).split(axis<1>, group_);
        const auto gate = half(0), linear = half(1);
        const Step s = differentiate(gate, linear, g, w_, clamp_, [&](const Value<f32, 3>& v) {
            return aligned_ ? divided(k_, v, threads_) : divided(v);
        });
        dot = dot.get() + s.dot.merge(axis<1>);
        store(out_.block({1, cols_}, {row_, step}), cast<bf16>(s.out.merge(axis<1>)));
        put(0, step, s.gate_grad);
        put(1, step, s.linear_grad);
    }

    /// A half's gradient, [1, groups, group], as it is and quantized.
    void put(int i, const Index& step, const Value<f32, 3>& v) const {
        store(grad_[i].block({1, cols_}, {row_, step}), cast<bf16>(v.merge(axis<1>)));
        const auto amax = reduce_max(abs(v), axis<2>).squeeze(axis<2>);
        const auto scales = quant::scales_of(amax, quant::limits_of(e4m3), round_);
        store(grad_sf_[i].block({1, step_groups()}, {row_, step}), scales.sf);
        store(grad_q_[i].block({1, cols_}, {row_, step}),
              cast<e4m3>((v * scales.inv.unsqueeze(axis<2>)).merge(axis<1>)));
    }

    Kernel& k_;
    std::int64_t hidden_, group_, groups_;
    bool aligned_, round_;
    int threads_ = choose_threads(hidden_, group_);
    std::int64_t cols_ = threads_ * elements_per_thread;
    Dim tokens_, slots_;
    Global<e4m3, 3> x_;
    Global<f32, 3> x_sf_;
    Global<bf16, 2> grad_out_;
    Global<f32, 1> weight_;
    Global<i32, 1> positions_, rows_;
    Global<bf16, 2> out_;
    Global<e4m3, 3> grad_q_;
    Global<f32, 3> grad_sf_;
    Global<bf16, 3> grad_;
    Global<f32, 1> weight_grad_;
    std::optional<Value<f32, 0>> clamp_;
    Index row_{detail::Ref{}};
    Value<f32, 0> w_{detail::Ref{}};
};

}  // namespace

Program backward_and_per_token_cast_program(std::int64_t hidden, const BackwardOptions& o, bool aligned) {
    check_backward_options(hidden, o);
    return record("swiglu_backward_and_per_token_cast", [=](Kernel& k) { Row(k, hidden, o, aligned).record(); });
}

namespace {

/// Fills an f32 tensor with 0.
Program zero_program() {
    return record("swiglu_zero", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto y = k.output<f32>("y", {n}, {.align = 4});
        constexpr std::int64_t cols = 1024;
        k.dependent_launch();  // whoever follows may start at once
        k.threads(256);
        const auto [m] = k.grid(ceil_div(n, cols));
        store(y.block({cols}, {m}), full({cols}, Value<f32, 0>(0.0f)));
    });
}

bool all_aligned(std::initializer_list<const TensorView*> views) {
    return std::all_of(views.begin(), views.end(),
                       [](const TensorView* v) { return reinterpret_cast<std::uintptr_t>(v->data) % 16 == 0; });
}

/// The gradient of slots without a row here is cleared, by a kernel that lets the one behind it in.
void clear_weight_grad(const Stream& stream, const TensorView& weight_grad) {
    Engine::of(stream).kernel(stream, {"swiglu_zero", {}}, zero_program).launch(stream, {flat(weight_grad)});
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
    if (a.slots.count() > 0) clear_weight_grad(stream, out.weight_grad);  // not before the other kernel is there
    kernel.launch(stream, tensors, std::span<const Scalar>(&clamp, options.swiglu_clamp_value ? 1 : 0),
                  {.dependent = a.slots.count() > 0});
}

}  // namespace

void backward_and_per_token_cast(const Stream& stream, const BackwardInputs& inputs,
                                 const BackwardOutputs<TensorView>& outputs, const BackwardOptions& options) {
    const BackwardArguments a = check_backward(stream, inputs, options);
    check_backward_outputs(a, outputs, stream);
    if (a.tokens > 0)
        launch(stream, a, inputs, outputs, options);
    else if (a.slots.count() > 0)
        clear_weight_grad(stream, outputs.weight_grad);
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

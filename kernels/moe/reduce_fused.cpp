#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/moe.hpp"
#include "kernels/moe/positions.hpp"
#include "kernels/moe/rows.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::moe {

namespace {

/// Slots written out one by one, so that the loads of several are under way at once.
constexpr std::int64_t most_unrolled = 16;
/// Vectors of a row that a thread sums: of f32 few, so that those of all slots are under way at once beside their sums;
/// of bf16, whose sums take twice the registers of its vectors, whole rows a block and one slot after the other.
constexpr std::int64_t most_vectors(Element in, bool aligned) { return in == f32 && aligned ? 2 : 10; }

struct ReduceTensors {
    Global<i32, 2> slots{detail::ViewSpec{}};
    Global<f32, 2> weights{detail::ViewSpec{}};
    Global<f32, 1> x_sf{detail::ViewSpec{}};
    Global<f32, 1> sf{detail::ViewSpec{}};

    ReduceTensors(Kernel& k, const ReduceForm& form, const Index& tokens, const Index& positions, std::int64_t topk) {
        slots = k.input<i32>("token_topk_to_pos", {tokens, topk}, {.align = 4, .strides = {k.dim("slots_pitch"), 1}});
        if (form.weights)
            weights =
                k.input<f32>("topk_weights", {tokens, topk}, {.align = 4, .strides = {k.dim("weights_pitch"), 1}});
        if (form.x_sf) x_sf = k.input<f32>("x_sf", {positions}, {.align = 4});
        if (form.sf) sf = k.input<f32>("sf", {1}, {.align = 4});
        form_ = form;
    }
    /// What row `pos` of x, that of slot s of the token, is multiplied by.
    Value<f32, 0> factor(const Index& token, const Index& s, const Index& pos) const {
        auto result = Value<f32, 0>(1.0f);
        if (form_.weights) result = load(weights[token][s]);
        if (form_.x_sf) result = result * load(x_sf[pos]);
        return result;
    }

private:
    ReduceForm form_;
};

/// add(s, pos) for the slots s of one token that have a row, in ascending order: most have none, and cost nothing so.
template <class Add>
void add_taken_slots(Kernel& k, const ReduceTensors& t, const Index& token, std::int64_t topk, Add&& add) {
    auto taken = Value<u32, 0>(0u);
    for (std::int64_t s = 0; s < topk; ++s)
        taken = taken | select(load(t.slots[token][s]) >= 0, Value<u32, 0>(1u << s), 0u);
    auto left = k.variable(taken);
    k.serial(cast<i64>(popcount(taken)), [&](const Index&) {
        const auto now = left.get();
        const Index s = cast<i64>(popcount((now & (0u - now)) - 1u));
        left = now & (now - 1u);
        add(s, cast<i64>(load(t.slots[token][s])));
    });
}

template <Element In, Element Out>
Program recorded(std::int64_t hidden, std::int64_t topk, const ReduceForm& form, bool aligned) {
    return record("reduce_fused", [=](Kernel& k) {
        constexpr std::int64_t vector = 128 / bits_of(In);
        const auto [rows, cols, threads] = row_tile(hidden, aligned ? vector : 1, most_vectors(In, aligned));
        const Dim tokens = k.dim("tokens"), positions = k.dim("positions");
        const auto x = k.input<In>("x", {positions, hidden},
                                   {.align = aligned ? 16 : bits_of(In) / 8,
                                    .strides = {k.dim("x_pitch", multiple_of(aligned ? vector : 1)), 1}});
        const ReduceTensors t(k, form, tokens, positions, topk);
        const auto out = k.output<Out>("out", {tokens, hidden}, {.align = aligned ? 16 : bits_of(Out) / 8});
        const bool one_by_one = In == bf16 && rows == 1 && topk <= 32;
        k.threads(threads, In != bf16 || threads != 128 ? 0 : one_by_one ? 5 : 4);
        const auto [m, n] = k.grid(ceil_div(tokens, rows), ceil_div(hidden, cols));

        auto sum = k.variable(full({rows, cols}, Value<f32, 0>(0.0f)));
        const auto add_slot = [&](const Index& s) {
            const auto pos = load(t.slots.window({rows, 1}, {m * rows, s}), -1).squeeze(axis<1>);
            const auto v = load(x.window({rows, cols}, {pos, n * cols}));
            auto scale = full({rows}, Value<f32, 0>(1.0f));
            if (form.weights) scale = load(t.weights.window({rows, 1}, {m * rows, s})).squeeze(axis<1>);
            if (form.x_sf) scale = scale * load(t.x_sf.window({rows}, {pos}));
            // An empty slot adds 0 · −0 = −0, which changes no sum: not even one of −0.
            const auto factor = select(pos >= 0, scale, -0.0f);
            sum = fma(cast<f32>(v), factor.unsqueeze(axis<1>), sum.get());
        };
        if (one_by_one)
            add_taken_slots(k, t, m, topk, [&](const Index& s, const Index& pos) {
                const auto v = load(x.window({1, cols}, {pos, n * cols}));
                sum = fma(cast<f32>(v), t.factor(m, s, pos), sum.get());
            });
        else if (topk <= most_unrolled)
            for (std::int64_t s = 0; s < topk; ++s) add_slot(Index(s));
        else
            k.serial(topk, add_slot);
        auto total = sum.get();
        if (form.sf) total = total * load(t.sf.window({1}, {0})).unsqueeze(axis<1>);
        store(out.block({rows, cols}, {m, n}), cast<Out>(total));
        report_positions(k, t.slots, rows, m, n, topk, positions);
    });
}

void check_inputs(const Stream& stream, const TensorView& x, const TensorView& slots, const ReduceOptions& o) {
    constexpr const char* function = "reduce_fused";
    check_rows(function, "x", stream, x);
    if (x.element != bf16 && x.element != f32)
        throw UsageError(fmt::format("{}: x is {}; it takes bf16 or f32", function, name_of(x.element)));
    if (slots.rank() != 2)
        throw UsageError(
            fmt::format("{}: token_topk_to_pos has extents {}; it is i32 [T, K]", function, text_of(slots.extents)));
    check_positions(function, stream, slots, slots.extents[0]);
    if (o.topk_weights) {
        check_rows(function, "topk_weights", stream, *o.topk_weights);
        if (o.topk_weights->element != f32 || !(o.topk_weights->extents == slots.extents))
            throw UsageError(fmt::format("{}: topk_weights is {} {}, but token_topk_to_pos {} needs f32 of its extents",
                                         function, name_of(o.topk_weights->element), text_of(o.topk_weights->extents),
                                         text_of(slots.extents)));
    }
    if (o.x_sf) check_dense(function, "x_sf", stream, *o.x_sf, f32, {x.extents[0]});
    if (o.sf && !o.to_e4m3)
        throw UsageError(fmt::format("{}: sf is given, but the output is {}; sf scales e4m3 outputs only: set to_e4m3",
                                     function, name_of(x.element)));
    if (o.sf) check_dense(function, "sf", stream, *o.sf, f32, {1});
}

void launch(const Stream& stream, const TensorView& x, const TensorView& slots, const TensorView& out,
            const ReduceOptions& o) {
    if (out.extents[0] == 0) return;
    const std::int64_t hidden = x.extents[1], topk = slots.extents[1];
    const ReduceForm form{o.topk_weights.has_value(), o.x_sf.has_value(), o.to_e4m3, o.sf.has_value()};
    const bool aligned = common_alignment({x}) == 16 && reinterpret_cast<std::uintptr_t>(out.data) % 16 == 0;
    const KernelId id("reduce_fused",
                      {x.element, hidden, topk, form.weights, form.x_sf, form.to_e4m3, form.sf, aligned});
    const CompiledKernel& kernel = Engine::of(stream).kernel(
        stream, id, [&] { return reduce_fused_program(x.element, hidden, topk, form, aligned); });
    TensorView tensors[6] = {with_pitch(x), with_pitch(slots)};
    std::size_t count = 2;
    if (form.weights) tensors[count++] = with_pitch(*o.topk_weights);
    if (form.x_sf) tensors[count++] = *o.x_sf;
    if (form.sf) tensors[count++] = *o.sf;
    tensors[count++] = out;
    kernel.launch(stream, std::span<const TensorView>(tensors, count));
}

}  // namespace

Program reduce_fused_program(Element in, std::int64_t hidden, std::int64_t topk, const ReduceForm& form, bool aligned) {
    if (in != bf16 && in != f32)
        throw UsageError(fmt::format("reduce_fused: x is {}; it takes bf16 or f32", name_of(in)));
    return with_element<bf16, f32>(in, [&]<Element In>() {
        return form.to_e4m3 ? recorded<In, e4m3>(hidden, topk, form, aligned)
                            : recorded<In, In>(hidden, topk, form, aligned);
    });
}

void reduce_fused(const Stream& stream, const TensorView& x, const TensorView& token_topk_to_pos, const TensorView& out,
                  const ReduceOptions& options) {
    check_inputs(stream, x, token_topk_to_pos, options);
    check_dense("reduce_fused", "out", stream, out, options.to_e4m3 ? e4m3 : x.element,
                {token_topk_to_pos.extents[0], x.extents[1]});
    check_apart("reduce_fused", "out", out, "x", x);
    launch(stream, x, token_topk_to_pos, out, options);
}

Tensor reduce_fused(const Stream& stream, const TensorView& x, const TensorView& token_topk_to_pos,
                    const ReduceOptions& options) {
    check_inputs(stream, x, token_topk_to_pos, options);
    Tensor out =
        Tensor::empty(stream, options.to_e4m3 ? e4m3 : x.element, {token_topk_to_pos.extents[0], x.extents[1]});
    launch(stream, x, token_topk_to_pos, out, options);
    return out;
}

}  // namespace tessera::moe

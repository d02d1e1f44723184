#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "kernels/engram.hpp"
#include "kernels/engram/check.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

// A block takes a slice of the columns and spreads the rows over its threads: narrow slices keep the whole device busy.

namespace tessera::engram {

namespace {

constexpr const char* name = "engram_grad_w_reduce";
constexpr std::int64_t columns = 64, threads = 128;
constexpr int blocks = 4;  // of a multiprocessor; what the rows under way take of its registers

/// Rows that a block has under way at once: all of them up to a few for each thread.
std::int64_t rows_at_once(std::int64_t rows) {
    constexpr std::int64_t step = threads * 4 / columns, most = 17;
    return std::min(ceil_div(rows, step), most) * step;
}

std::int64_t check(const Stream& stream, const TensorView& partial, const TensorView& hidden, const TensorView& embed,
                   const WeightGradients& gradients) {
    check_weight(name, "weight_hidden", stream, hidden);
    check_dense(name, "weight_embed", stream, embed, bf16, hidden.extents);
    check_kind(name, "grad_w_partial", stream, partial, f32, 3);
    const std::int64_t rows = partial.extents[0];
    if (rows < 1)
        throw UsageError(fmt::format("{}: grad_w_partial has extents {}; there is at least one row to sum", name,
                                     text_of(partial.extents)));
    check_dense(name, "grad_w_partial", stream, partial, f32, {rows, hidden.extents[0], hidden.extents[1]});
    check_dense(name, "gradients.hidden", stream, gradients.hidden, f32, hidden.extents);
    check_dense(name, "gradients.embed", stream, gradients.embed, f32, hidden.extents);
    const auto* const a = static_cast<const char*>(gradients.hidden.data);
    const auto* const b = static_cast<const char*>(gradients.embed.data);
    if (a < b + gradients.embed.bytes() && b < a + gradients.hidden.bytes())
        throw UsageError(fmt::format(
            "{}: gradients.hidden and gradients.embed overlap in memory; give each weight a gradient of its own",
            name));
    return rows;
}

}  // namespace

Program grad_w_reduce_program(std::int64_t rows, bool aligned) {
    return record(name, [=](Kernel& k) {
        const Dim count = k.dim("count", multiple_of(aligned ? 8 : 1));
        const auto at = [&](int align) { return aligned ? 16 : align; };
        const auto partial = k.input<f32>("grad_w_partial", {rows, count}, {.align = at(4)});
        const auto hidden = k.input<bf16>("weight_hidden", {count}, {.align = at(2)});
        const auto embed = k.input<bf16>("weight_embed", {count}, {.align = at(2)});
        const auto grad_hidden = k.inout<f32>("grad_weight_hidden", {count}, {.align = at(4)});
        const auto grad_embed = k.inout<f32>("grad_weight_embed", {count}, {.align = at(4)});
        k.threads(threads, blocks);  // left the choice, the compiler makes loads wait for others
        const auto [m] = k.grid(ceil_div(count, columns));

        // All loads are under way before the first is waited for.
        const auto old_hidden = load(grad_hidden.block({columns}, {m}));
        const auto old_embed = load(grad_embed.block({columns}, {m}));
        const auto by_hidden = load(hidden.block({columns}, {m}));
        const auto by_embed = load(embed.block({columns}, {m}));
        const std::int64_t at_once = rows_at_once(rows);
        auto sum = k.variable(full({1, columns}, Value<f32, 0>(0.0f)));
        k.serial(ceil_div(rows, at_once), [&](Index i) {
            sum = sum.get() + reduce_sum(load(partial.block({at_once, columns}, {i, m})), axis<0>);
        });
        const auto total = sum.get().squeeze(axis<0>);
        store(grad_hidden.block({columns}, {m}), fma(total, cast<f32>(by_embed), old_hidden));
        store(grad_embed.block({columns}, {m}), fma(total, cast<f32>(by_hidden), old_embed));
    });
}

void grad_w_reduce(const Stream& stream, const TensorView& grad_w_partial, const TensorView& weight_hidden,
                   const TensorView& weight_embed, const WeightGradients& gradients) {
    const std::int64_t rows = check(stream, grad_w_partial, weight_hidden, weight_embed, gradients);
    const bool aligned = weight_hidden.count() % 8 == 0 && at_16_bytes({&grad_w_partial, &weight_hidden, &weight_embed,
                                                                        &gradients.hidden, &gradients.embed});
    TensorView partial = grad_w_partial;
    partial.extents = {rows, weight_hidden.count()}, partial.strides = {weight_hidden.count(), 1};
    Engine::of(stream)
        .kernel(stream, KernelId(name, {rows, aligned}), [&] { return grad_w_reduce_program(rows, aligned); })
        .launch(stream,
                {partial, flat(weight_hidden), flat(weight_embed), flat(gradients.hidden), flat(gradients.embed)});
}

}  // namespace tessera::engram

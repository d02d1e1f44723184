#include "dsl/front/kernel.hpp"
#include "kernels/mhc/norm_plan.hpp"
#include "kernels/mhc_norm.hpp"

// Both gradients in one reading of the residual. A block has 256 columns of K and a part of the tokens, 16 at a time,
// which come by a pipeline; its weights and its sums for fn stay in registers. The gradient of the residual is made
// transposed, columns by tokens: so a lane's residuals lie as both products want them, and in whole vectors of memory.

namespace tessera::mhc {

namespace {

constexpr int threads = 128, warps = threads / 32, stages = 3;
constexpr std::int64_t width = norm_backward_columns, step = norm_backward_step;

// Lanes that read at once have rows 4 apart and two neighbouring vectors of 16 bytes.
constexpr SwizzleOptions swizzle{.bits = 2, .base = 4, .shift = 6};

}  // namespace

Program norm_product_backward_program(const NormForm& form) {
    return record("mhc_norm_product_backward", [=](Kernel& k) {
        const std::int64_t columns = align_up(form.columns, 8), rows = align_up(form.columns, 16);
        const int align = form.columns % 4 == 0 ? 16 : 4;
        const Dim tokens = k.dim("tokens"), count = k.dim("part_count");
        const auto residual = k.input<bf16>("residual", {tokens, form.inner});
        const auto fn = k.input<f32>("fn", {form.columns, form.inner});
        const auto d_products = k.input<f32>("grad_products", {tokens, form.columns}, {.align = align});
        const auto d_squares = k.input<f32>("grad_square_sum", {tokens}, {.align = 4});
        const auto d_residual = form.accumulate ? k.inout<bf16>("grad_residual", {tokens, form.inner})
                                                : k.output<bf16>("grad_residual", {tokens, form.inner});
        const auto parts = k.output<f32>("parts", {count, form.columns, form.inner});
        k.threads(threads, 2);
        const auto [slab, part] = k.grid(ceil_div(form.inner, width), count);
        const Index blocks = ceil_div(tokens, step);
        const Index first = part * blocks / count, last = (part + 1) * blocks / count;
        const auto residuals = k.shared<bf16>("residuals", {stages, step, width}, swizzle);
        const auto olds = k.shared<bf16>("old_gradients", {form.accumulate ? stages : 1, step, width}, swizzle);
        const auto squares = k.shared<f32>("grad_squares_in", {stages, step});
        const auto by_token = k.shared<f32>("grad_products_in", {stages, step, rows});
        const Value<f32, 0> zero(0.0f);
        const auto weights = bitcast<tf32>(load(fn.block({columns, width}, {0, slab}))).permute<1, 0>();
        auto d_fn = k.variable(full({rows, width}, zero));
        k.pipelined(
            last - first, {.stages = stages},
            [&](Index i, Index slot) {
                const Index block = first + i;
                copy_async(residuals[slot].whole(), residual.block({step, width}, {block, slab}));
                if (form.accumulate) copy_async(olds[slot].whole(), d_residual.block({step, width}, {block, slab}));
                copy_async(by_token[slot].whole(), d_products.block({step, rows}, {block, 0}));
                copy_async(squares[slot].whole(), d_squares.block({step}, {block}));
            },
            [&](Index i, Index slot) {
                const Index block = first + i;
                const auto d_square = load(squares[slot].whole()).unsqueeze(axis<1>);
                const auto r = load(residuals[slot].whole());
                const auto old = form.accumulate ? cast<f32>(load(olds[slot].whole())) : full({step, width}, zero);
                const auto d = cast<tf32>(load(by_token[slot].window({step, columns}, {0, 0})));
                const auto product = mma(weights, d, old.permute<1, 0>(), {.warps = warps}).permute<1, 0>();
                store(d_residual.block({step, width}, {block, slab}),
                      cast<bf16>(fma(cast<f32>(r) * 2.0f, d_square, product)));
                const auto by_column = cast<tf32>(load(by_token[slot].whole())).permute<1, 0>();
                d_fn = mma(by_column, cast<tf32>(r).permute<1, 0>(), d_fn.get(), {.warps = 1});
            });
        store(parts[part].block({rows, width}, {0, slab}), d_fn.get());
    });
}

}  // namespace tessera::mhc

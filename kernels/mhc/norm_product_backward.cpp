#include "dsl/front/kernel.hpp"
#include "kernels/mhc_norm.hpp"

// Both gradients in one reading of the residual. A block has 512 columns of K and a part of the tokens, 16 at a time;
// its weights and its sums for fn stay in registers. The gradient of the residual is made transposed, columns by
// tokens: so a lane's residuals lie as both products want them, and in whole vectors of memory.

namespace tessera::mhc {

namespace {

constexpr std::int64_t width = 512, step = 16;
constexpr int threads = 256, warps = threads / 32;

}  // namespace

Program norm_product_backward_program(const NormForm& form) {
    return record("mhc_norm_product_backward", [=](Kernel& k) {
        const std::int64_t columns = align_up(form.columns, 8), rows = align_up(form.columns, 16);
        const Dim tokens = k.dim("tokens"), count = k.dim("part_count");
        const auto residual = k.input<bf16>("residual", {tokens, form.inner});
        const auto fn = k.input<f32>("fn", {form.columns, form.inner});
        const auto d_products = k.input<f32>("grad_products", {tokens, form.columns}, {.align = 4});
        const auto d_squares = k.input<f32>("grad_square_sum", {tokens}, {.align = 4});
        const auto d_residual = form.accumulate ? k.inout<bf16>("grad_residual", {tokens, form.inner})
                                                : k.output<bf16>("grad_residual", {tokens, form.inner});
        const auto parts = k.output<f32>("parts", {count, form.columns, form.inner});
        k.threads(threads);
        const auto [slab, part] = k.grid(ceil_div(form.inner, width), count);
        const Index blocks = ceil_div(tokens, step);
        const Index first = part * blocks / count, last = (part + 1) * blocks / count;
        const Value<f32, 0> zero(0.0f);
        const auto weights = bitcast<tf32>(load(fn.block({columns, width}, {0, slab}))).permute<1, 0>();
        auto d_fn = k.variable(full({rows, width}, zero));
        k.serial(last - first, [&](Index i) {
            const Index block = first + i;
            const auto r = load(residual.block({step, width}, {block, slab}));
            const auto piece = d_residual.block({step, width}, {block, slab});
            const auto old = form.accumulate ? cast<f32>(load(piece)) : full({step, width}, zero);
            const auto by_token = cast<tf32>(load(d_products.block({step, columns}, {block, 0})));
            const auto product = mma(weights, by_token, old.permute<1, 0>(), {.warps = warps}).permute<1, 0>();
            const auto d_square = load(d_squares.block({step}, {block})).unsqueeze(axis<1>);
            store(piece, cast<bf16>(fma(cast<f32>(r) * 2.0f, d_square, product)));
            const auto by_column = cast<tf32>(load(d_products.block({step, rows}, {block, 0})));
            d_fn = mma(by_column.permute<1, 0>(), cast<tf32>(r).permute<1, 0>(), d_fn.get(), {.warps = 1});
        });
        store(parts[part].block({rows, width}, {0, slab}), d_fn.get());
    });
}

}  // namespace tessera::mhc

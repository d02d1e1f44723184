#include "dsl/front/kernel.hpp"
#include "kernels/mhc/norm_plan.hpp"
#include "kernels/mhc_norm.hpp"

// A token's residual times the rows of fn, and the sum of its squares, in one reading of the residual: BF16 values are
// exact in TF32, and what is unpacked for the product is squared on the way. A block has 128 tokens and one split of K;
// what it needs of both tensors comes by a pipeline deep enough to keep memory busy with one block a multiprocessor.

namespace tessera::mhc {

namespace {

constexpr int threads = 128, stages = 4;
constexpr std::int64_t rows = norm_product_rows, step = norm_product_step;

// A lane reads 16 bytes of a row; the lanes that read at once have rows 4 apart, and neighbours of fn.
constexpr SwizzleOptions residual_swizzle{.bits = 3, .base = 3, .shift = 6},
    fn_swizzle{.bits = 1, .base = 2, .shift = 5};

}  // namespace

Program norm_product_program(const NormForm& form) {
    return record("mhc_norm_product", [=](Kernel& k) {
        const std::int64_t columns = align_up(form.columns, 8);
        const Dim tokens = k.dim("tokens"), splits = k.dim("splits");
        const auto residual = k.input<bf16>("residual", {tokens, form.inner});
        const auto fn = k.input<f32>("fn", {form.columns, form.inner});
        const auto products = k.output<f32>("products", {splits, tokens, form.columns}, {.align = 4});
        const auto squares = k.output<f32>("squares", {splits, tokens}, {.align = 4});
        k.threads(threads, 1);
        const auto [tile, split] = k.grid(ceil_div(tokens, rows), splits);
        const std::int64_t blocks = ceil_div(form.inner, step);
        const Index first = split * blocks / splits, last = (split + 1) * blocks / splits;
        const auto residuals = k.shared<bf16>("residuals", {stages, rows, step}, residual_swizzle);
        const auto weights = k.shared<f32>("weights", {stages, columns, step}, fn_swizzle);
        const Value<f32, 0> zero(0.0f);
        auto product = k.variable(full({rows, columns}, zero));
        auto square = k.variable(full({rows, 1, 4, 1}, zero));
        k.pipelined(
            last - first, {.stages = stages},
            [&](Index i, Index slot) {
                copy_async(residuals[slot].whole(), residual.block({rows, step}, {tile, first + i}));
                copy_async(weights[slot].whole(), fn.block({columns, step}, {0, first + i}));
            },
            [&](Index, Index slot) {
                const auto r = load(residuals[slot].whole());
                const auto w = load(weights[slot].whole());
                product = mma(cast<tf32>(r), form.rounded ? bitcast<tf32>(w) : cast<tf32>(w), product.get());
                const auto v = cast<f32>(r).split(axis<1>, 8).split(axis<1>, 4);
                square = square.get() + reduce_sum(reduce_dot(v, v, axis<3>), axis<1>);
            });
        store(products[split].block({rows, columns}, {tile, 0}), product.get());
        store(squares[split].block({rows}, {tile}),
              reduce_sum(square.get(), axis<2>).squeeze(axis<3>).squeeze(axis<2>).squeeze(axis<1>));
    });
}

}  // namespace tessera::mhc

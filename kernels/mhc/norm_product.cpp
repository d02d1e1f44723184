#include "dsl/front/kernel.hpp"
#include "kernels/mhc/norm_plan.hpp"
#include "kernels/mhc_norm.hpp"

// A token's residual times the rows of fn, and the sum of its squares, in one reading of the residual: BF16 values are
// exact in TF32, and what is unpacked for the product is squared on the way. A block has 128 tokens and one split of K;
// what it needs of both tensors comes, in boxes, by a pipeline deep enough to keep memory busy with one block a
// multiprocessor, and which leaves room for blocks of the kernel behind it: of those that wait for the products, the
// first channels are then on their way.

namespace tessera::mhc {

namespace {

constexpr int threads = 128, stages = 3;
constexpr std::int64_t rows = norm_product_rows, step = norm_product_step;

// Rows of K are seen as rows of 128 bytes, one behind the other, which is what the copy engine swizzles: a box has
// those of all tokens, or of all rows of fn, for each part of the step. The rows that lanes read at once are 4 apart.
constexpr std::int64_t residual_cols = 64, part = 32;  // of K; what is multiplied at a time is a row of fn's boxes
constexpr SwizzleOptions residual_swizzle{.bits = 3, .base = 3, .shift = 3},
    fn_swizzle{.bits = 3, .base = 2, .shift = 3};

}  // namespace

Program norm_product_program(const NormForm& form) {
    return record("mhc_norm_product", [=](Kernel& k) {
        const std::int64_t columns = align_up(form.columns, 8);
        const Dim tokens = k.dim("tokens"), splits = k.dim("splits");
        const auto residual = k.input<bf16>("residual", {form.inner / residual_cols, tokens, residual_cols},
                                            {.strides = {residual_cols, form.inner, 1}});
        const auto fn = k.input<f32>("fn", {form.inner / part, form.columns, part}, {.strides = {part, form.inner, 1}});
        const auto products = k.output<f32>("products", {splits, tokens, form.columns}, {.align = 4});
        const auto squares = k.output<f32>("squares", {splits, tokens}, {.align = 4});
        k.threads(threads, 1);
        k.dependent_launch();  // lets the kernel behind it in while this one runs
        const auto [tile, split] = k.grid(ceil_div(tokens, rows), splits);
        const std::int64_t blocks = ceil_div(form.inner, step);
        const Index first = split * blocks / splits, last = (split + 1) * blocks / splits;
        const auto residuals =
            k.shared<bf16>("residuals", {stages, step / residual_cols, rows, residual_cols}, residual_swizzle);
        const auto weights = k.shared<f32>("weights", {stages, step / part, columns, part}, fn_swizzle);
        const Value<f32, 0> zero(0.0f);
        auto product = k.variable(full({rows, columns}, zero));
        auto square = k.variable(full({rows, 4, 1}, zero));
        k.pipelined(
            last - first, {.stages = stages, .engine = Copies::tensor},
            [&](Index i, Index slot) {
                copy_async(residuals[slot].whole(),
                           residual.block({step / residual_cols, rows, residual_cols}, {first + i, tile, 0}));
                copy_async(weights[slot].whole(), fn.block({step / part, columns, part}, {first + i, 0, 0}));
            },
            [&](Index, Index slot) {
                for (std::int64_t at = 0; at < step; at += part) {
                    const auto r =
                        load(residuals[slot][at / residual_cols].window({rows, part}, {0, at % residual_cols}));
                    const auto w = load(weights[slot][at / part].whole());
                    product = mma(cast<tf32>(r), form.rounded ? bitcast<tf32>(w) : cast<tf32>(w), product.get());
                    const auto v = cast<f32>(r).split(axis<1>, 8);
                    square = square.get() + reduce_dot(v, v, axis<2>);
                }
            });
        store(products[split].block({rows, columns}, {tile, 0}), product.get());
        store(squares[split].block({rows}, {tile}),
              reduce_sum(square.get(), axis<1>).squeeze(axis<2>).squeeze(axis<1>));
    });
}

}  // namespace tessera::mhc

#include "dsl/front/kernel.hpp"
#include "kernels/mhc/norm_plan.hpp"
#include "kernels/mhc_norm.hpp"

// A token's residual times the rows of fn, and the sum of its squares, in one reading of the residual: fn as the sum of
// two BF16 halves, which tensor cores multiply where the copies have put them. The squares are summed meanwhile. As in
// norm_product.cpp a block has 128 tokens and one split of K, but takes 512 bytes of a row at a time: memory gives long
// rows faster, so that two stages of 88 KB are ahead of more and shorter ones.

namespace tessera::mhc {

namespace {

constexpr int threads = 256, stages = 2;
constexpr std::int64_t rows = norm_product_rows, step = 256, line = 64, lines = step / line;
constexpr SwizzleOptions swizzle = operand_swizzle<bf16>(line);

}  // namespace

Program norm_product_halves_program(const NormForm& form) {
    return record("mhc_norm_product_halves", [=](Kernel& k) {
        const std::int64_t columns = align_up(form.columns, 8);
        const Dim tokens = k.dim("tokens"), splits = k.dim("splits");
        const auto residual = k.input<bf16>("residual", {tokens, form.inner});
        const auto halves = k.input<bf16>("halves", {2 * form.columns, form.inner});
        const auto products = k.output<f32>("products", {splits, tokens, form.columns}, {.align = 4});
        const auto squares = k.output<f32>("squares", {splits, tokens}, {.align = 4});
        k.threads(threads, 1);
        const auto [tile, split] = k.grid(ceil_div(tokens, rows), splits);
        const std::int64_t blocks = ceil_div(form.inner, step);
        const Index first = split * blocks / splits, last = (split + 1) * blocks / splits;
        const auto residuals = k.shared<bf16>("residuals", {stages, lines, rows, line}, swizzle);
        const auto weights = k.shared<bf16>("weights", {stages, lines, 2 * columns, line}, swizzle);
        const Value<f32, 0> zero(0.0f);
        auto product = k.variable(full({rows, 2 * columns}, zero));
        auto square = k.variable(full({1, rows, line / 8, 1}, zero));
        k.pipelined(
            last - first, {.stages = stages},
            [&](Index i, Index slot) {
                for (std::int64_t l = 0; l < lines; ++l) {
                    const Index at = (first + i) * lines + l;
                    copy_async(residuals[slot][l].whole(), residual.block({rows, line}, {tile, at}));
                    // Whole rows of the tile at once, but where the halves do not follow each other there.
                    const std::int64_t at_once = columns == form.columns ? 2 * columns : columns;
                    for (std::int64_t row = 0; row < 2 * columns; row += at_once)
                        copy_async(weights[slot][l].window({at_once, line}, {row, 0}),
                                   halves.window({at_once, line}, {row == 0 ? 0 : form.columns, at * line}));
                }
            },
            [&](Index, Index slot) {
                const auto sum = mma(residuals[slot].whole(), weights[slot].whole(), product.get());
                const auto v = cast<f32>(load(residuals[slot].whole())).split(axis<2>, 8);
                square = square.get() + reduce_sum(reduce_dot(v, v, axis<3>), axis<0>);
                product = sum;
            });
        store(products[split].block({rows, columns}, {tile, 0}),
              reduce_sum(product.get().split(axis<1>, columns), axis<1>).squeeze(axis<1>));
        store(squares[split].block({rows}, {tile}),
              reduce_sum(square.get(), axis<2>).squeeze(axis<3>).squeeze(axis<2>).squeeze(axis<0>));
    });
}

}  // namespace tessera::mhc

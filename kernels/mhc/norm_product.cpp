#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "kernels/mhc_norm.hpp"

// A token's residual times the rows of fn, and the sum of its squares, in one reading of the residual: BF16 values are
// exact in TF32, and what is unpacked for the product is squared on the way. A block has 16 tokens a warp and one split
// of K, in steps of 64; warps share nothing, fn comes from the caches.

namespace tessera::mhc {

namespace {

constexpr std::int64_t step = 64, rows_per_warp = 32;
constexpr int threads = 256;
constexpr std::int64_t rows = rows_per_warp * threads / 32;

}  // namespace

Program norm_product_program(const NormForm& form) {
    return record("mhc_norm_product", [=](Kernel& k) {
        const std::int64_t columns = align_up(form.columns, 8);
        const Dim tokens = k.dim("tokens"), splits = k.dim("splits");
        const auto residual = k.input<bf16>("residual", {tokens, form.inner});
        const auto fn = k.input<f32>("fn", {form.columns, form.inner});
        const auto products = k.output<f32>("products", {splits, tokens, form.columns}, {.align = 4});
        const auto squares = k.output<f32>("squares", {splits, tokens}, {.align = 4});
        k.threads(threads);
        const auto [tile, split] = k.grid(ceil_div(tokens, rows), splits);
        const Index blocks = form.inner / step;
        const Index first = split * blocks / splits, last = (split + 1) * blocks / splits;
        const Value<f32, 0> zero(0.0f);
        auto sum = k.variable(full({rows, columns}, zero));
        auto square = k.variable(full({rows, 1, 4, 1}, zero));
        k.serial(last - first, [&](Index i) {
            const Index block = first + i;
            const auto r = load(residual.block({rows, step}, {tile, block}));
            const auto w = load(fn.block({columns, step}, {0, block}));
            sum = mma(cast<tf32>(r), form.rounded ? bitcast<tf32>(w) : cast<tf32>(w), sum.get());
            const auto v = cast<f32>(r).split(axis<1>, 8).split(axis<1>, 4);
            square = square.get() + reduce_sum(reduce_dot(v, v, axis<3>), axis<1>);
        });
        store(products[split].block({rows, columns}, {tile, 0}), sum.get());
        store(squares[split].block({rows}, {tile}),
              reduce_sum(square.get(), axis<2>).squeeze(axis<3>).squeeze(axis<2>).squeeze(axis<1>));
    });
}

}  // namespace tessera::mhc

#include "kernels/mhc/norm_rows.hpp"

#include "kernels/mhc/norm_kernels.hpp"
#include "kernels/mhc_norm.hpp"

// The kernels of norm_fn that work on the logits alone.

namespace tessera::mhc {

namespace {
constexpr std::int64_t rows = 16;  // tokens of a block
constexpr int threads = 64;
}  // namespace

std::int64_t reduce_at_once(std::int64_t splits) { return splits_at_once(splits, 6); }

Program norm_reduce_program(const LogitsForm& form) {
    return record(names::norm_reduce, [=](Kernel& k) {
        const std::int64_t columns = form.columns;
        const Dim tokens = k.dim("tokens"), splits = k.dim("splits");
        const TensorOptions wide{.align = 16}, given{.align = form.aligned ? 16 : 4};
        const auto parts = k.input<f32>("products", {splits, tokens, columns}, wide);
        const auto squares = k.input<f32>("squares", {splits, tokens}, {.align = 4});
        const auto logits = k.output<f32>("logits", {tokens, columns}, given);
        const auto products = k.output<f32>("product_sums", {tokens, columns}, given);
        const auto square_sums = k.output<f32>("square_sums", {tokens}, {.align = 4});
        const auto eps = k.scalar<f32>("eps"), inner = k.scalar<f32>("inner");
        k.dependent_launch();
        k.threads(threads);
        const auto [block] = k.grid(ceil_div(tokens, rows));
        struct Part {
            Value<f32, 1> squares;
            Value<f32, 2> products;
        };
        const Value<f32, 0> zero(0.0f);
        auto square_sum = k.variable(full({rows}, zero));
        auto product_sum = k.variable(full({rows, columns}, zero));
        const auto part = [&](const Index& s) {
            return Part{load(squares[s].block({rows}, {block})), load(parts[s].block({rows, columns}, {block, 0}))};
        };
        each_split(k, splits, form.at_once, part, [&](const Part& p) {
            square_sum = square_sum.get() + p.squares;
            product_sum = product_sum.get() + p.products;
        });
        const auto squared = square_sum.get();
        const auto sum = product_sum.get();
        store(square_sums.block({rows}, {block}), squared);
        store(products.block({rows, columns}, {block, 0}), sum);
        store(logits.block({rows, columns}, {block, 0}), sum * inverse_norm(squared, inner, eps).unsqueeze(axis<1>));
    });
}

Program norm_backward_reduce_program(const LogitsForm& form) {
    return record(names::norm_backward_reduce, [=](Kernel& k) {
        const std::int64_t columns = form.columns;
        const Dim tokens = k.dim("tokens");
        const TensorOptions given{.align = form.aligned ? 16 : 4};
        const auto grad_logits = k.input<f32>("grad_logits", {tokens, columns}, given);
        const auto products = k.input<f32>("products", {tokens, columns}, given);
        const auto square_sums = k.input<f32>("square_sums", {tokens}, {.align = 4});
        const auto grad_products = k.output<f32>("grad_products", {tokens, columns}, {.align = 16});
        const auto grad_square_sums = k.output<f32>("grad_square_sums", {tokens}, {.align = 4});
        const auto eps = k.scalar<f32>("eps"), inner = k.scalar<f32>("inner"), eps_inner = k.scalar<f32>("eps_inner");
        k.threads(threads);
        const auto [block] = k.grid(ceil_div(tokens, rows));
        const auto g = load(grad_logits.block({rows, columns}, {block, 0}));
        const auto sum = load(products.block({rows, columns}, {block, 0}));
        const auto squared = load(square_sums.block({rows}, {block})).unsqueeze(axis<1>);
        const auto r = inverse_norm(squared, inner, eps);
        store(grad_products.block({rows, columns}, {block, 0}), cast<f32>(cast<tf32>(g * r)));
        const auto dot = reduce_sum(g * sum, axis<1>);
        store(grad_square_sums.block({rows}, {block}), (dot * r / (squared + eps_inner) / -2.0f).squeeze(axis<1>));
    });
}

}  // namespace tessera::mhc

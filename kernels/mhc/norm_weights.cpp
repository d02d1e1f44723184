#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/mhc/norm_kernels.hpp"
#include "kernels/mhc/norm_rows.hpp"
#include "kernels/mhc_norm.hpp"

// The kernels of norm_fn that work on the weights fn alone, (J, K).

namespace tessera::mhc {

namespace {
constexpr std::int64_t round_width = 1024;
constexpr int round_threads = 256;
}  // namespace

Program round_weights_program() {
    return record(names::round_weights, [](Kernel& k) {
        const Dim count = k.dim("count", multiple_of(4));
        const auto fn = k.input<f32>("fn", {count}, {.align = 16});
        const auto out = k.output<f32>("rounded", {count}, {.align = 16});
        k.threads(round_threads);
        const auto [block] = k.grid(ceil_div(count, round_width));
        store(out.block({round_width}, {block}), cast<f32>(cast<tf32>(load(fn.block({round_width}, {block})))));
    });
}

/// TF32 has 11 bits of mantissa: the first half is cut to 8 of them, and the other 3 are the second half, exactly down
/// to 2^-123. Of infinities and NaN the second half is 0.
Program halve_weights_program(bool rounded) {
    return record(names::halve_weights, [=](Kernel& k) {
        const Dim count = k.dim("count", multiple_of(4));
        const auto fn = k.input<f32>("fn", {count}, {.align = 16});
        const auto halves = k.output<bf16>("halves", {2, count}, {.align = 16});
        std::optional<Global<f32, 1>> out;
        if (rounded) out = k.output<f32>("rounded", {count}, {.align = 16});
        k.threads(round_threads);
        const auto [block] = k.grid(ceil_div(count, round_width));
        const auto t = cast<f32>(cast<tf32>(load(fn.block({round_width}, {block}))));
        if (out) store(out->block({round_width}, {block}), t);
        const auto first = bitcast<f32>(bitcast<u32>(t) & 0xFFFF0000u);
        const auto finite = abs(t) < std::numeric_limits<float>::infinity();
        store(halves[0].block({round_width}, {block}), cast<bf16>(first));
        store(halves[1].block({round_width}, {block}), cast<bf16>(select(finite, t - first, 0.0f)));
    });
}

Program sum_weight_parts_program(bool accumulate) {
    return record(names::sum_weight_parts, [=](Kernel& k) {
        constexpr std::int64_t width = 512;
        const Dim count = k.dim("count", multiple_of(4)), parts = k.dim("parts");
        const auto in = k.input<f32>("part_sums", {parts, count}, {.align = 16});
        const auto out = k.inout<f32>("sum", {count}, {.align = 16});
        k.dependent_launch();
        k.threads(128);
        const auto [block] = k.grid(ceil_div(count, width));
        auto old = full({width}, Value<f32, 0>(0.0f));
        if (accumulate) old = load(out.block({width}, {block}));
        auto sum = k.variable(full({width}, Value<f32, 0>(0.0f)));
        each_split(
            k, parts, 8, [&](const Index& p) { return load(in[p].block({width}, {block})); },
            [&](const Value<f32, 1>& part) { sum = sum.get() + part; });
        store(out.block({width}, {block}), accumulate ? old + sum.get() : sum.get());
    });
}

namespace {
constexpr std::int64_t merge_width = 256;  // of K, for a block
constexpr int merge_threads = 64;
constexpr std::int64_t rows_at_once = 8;
}  // namespace

Program merge_norm_weight_program(std::int64_t columns, bool aligned) {
    return record(names::merge, [=](Kernel& k) {
        const Dim inner = k.dim("inner", multiple_of(aligned ? 4 : 1));
        const TensorOptions options{.align = aligned ? 16 : 4};
        const auto fn = k.input<f32>("fn", {columns, inner}, options);
        const auto weight = k.input<f32>("weight", {inner}, options);
        const auto out = k.output<f32>("out", {columns, inner}, options);
        k.threads(merge_threads);
        const auto [row, block] = k.grid(columns, ceil_div(inner, merge_width));
        store(out[row].block({merge_width}, {block}),
              load(fn[row].block({merge_width}, {block})) * load(weight.block({merge_width}, {block})));
    });
}

Program merge_norm_weight_backward_program(std::int64_t columns, bool aligned, const AccumulateMerge& accumulate) {
    return record(names::merge_backward, [=](Kernel& k) {
        const Dim inner = k.dim("inner", multiple_of(aligned ? 4 : 1));
        const TensorOptions options{.align = aligned ? 16 : 4};
        const auto fn = k.input<f32>("fn", {columns, inner}, options);
        const auto weight = k.input<f32>("weight", {inner}, options);
        const auto grad = k.input<f32>("grad_out", {columns, inner}, options);
        const auto grad_fn = k.inout<f32>("grad_fn", {columns, inner}, options);
        const auto grad_weight = k.inout<f32>("grad_weight", {inner}, options);
        k.threads(merge_threads);
        const auto [block] = k.grid(ceil_div(inner, merge_width));
        const auto piece = [&](const Global<f32, 2>& of, std::int64_t row) {
            return of[row].block({merge_width}, {block});
        };
        const auto zero = full({merge_width}, Value<f32, 0>(0.0f));
        const auto w = load(weight.block({merge_width}, {block}));
        auto sum = k.variable(zero);
        for (std::int64_t first = 0; first < columns; first += rows_at_once) {
            const std::int64_t end = std::min(columns, first + rows_at_once);
            std::vector<Value<f32, 1>> grads, weights, olds;
            for (std::int64_t row = first; row < end; ++row) {
                grads.push_back(load(piece(grad, row)));
                weights.push_back(load(piece(fn, row)));
                olds.push_back(accumulate.fn ? load(piece(grad_fn, row)) : zero);
            }
            for (std::int64_t row = first; row < end; ++row) {
                const auto i = static_cast<std::size_t>(row - first);
                store(piece(grad_fn, row), fma(grads[i], w, olds[i]));
                sum = fma(grads[i], weights[i], sum.get());
            }
        }
        const auto home = grad_weight.block({merge_width}, {block});
        store(home, accumulate.weight ? load(home) + sum.get() : sum.get());
    });
}

}  // namespace tessera::mhc

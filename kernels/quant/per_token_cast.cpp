#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "dsl/base/error.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/quant/cast_input.hpp"
#include "runtime/engine.hpp"

namespace tessera::quant {

namespace {

constexpr std::int64_t elements_per_thread = 32;

/// Rows × columns of a block, and its threads.
struct Tile {
    std::int64_t rows, cols;
    int threads;
};

/// A tile of whole groups; columns are shared with few neighbours so that column-major scales come out in runs of rows.
Tile tile_of_groups(std::int64_t hidden, std::int64_t group, ScaleLayout layout) {
    constexpr int threads = 128;
    constexpr std::int64_t elements = threads * elements_per_thread;
    std::int64_t cols = std::max(group, std::gcd<std::int64_t>(hidden, elements / 4));
    if (layout == ScaleLayout::packed_ue8m0) cols = std::max(cols, 4 * group);
    return {elements / cols, cols, threads};
}

/// Whole rows in registers: as little padding as a power-of-two number of lanes allows.
Tile tile_of_rows(std::int64_t hidden, std::int64_t vector) {
    std::int64_t best = 32, padding = -1;
    for (std::int64_t lanes = 32; lanes <= 256; lanes *= 2) {
        const std::int64_t cols = align_up(hidden, lanes * vector);
        if (cols / lanes > 2 * elements_per_thread) continue;
        if (padding >= 0 &&
            (cols - hidden > padding || (cols - hidden == padding && cols / lanes < elements_per_thread)))
            continue;
        best = lanes;
        padding = cols - hidden;
    }
    const int threads = static_cast<int>(std::max<std::int64_t>(best, 128));
    return {threads / best, align_up(hidden, best * vector), threads};
}

constexpr std::int64_t longest_row_in_registers = 8192;

template <Element In, Element Out>
Program groups_program(std::int64_t hidden, std::int64_t group, ScaleLayout layout, bool round, bool aligned,
                       bool codes) {
    return record("per_token_cast", [=](Kernel& k) {
        const CastTensors<In, Out> t(k, hidden, aligned, codes);
        const ScaleOutput sf(k, layout, t.tokens, ceil_div(hidden, group));
        const auto [rows, cols, threads] = tile_of_groups(hidden, group, layout);
        const std::int64_t groups = cols / group;
        k.threads(threads);
        const auto [m, n] =
            k.grid(ceil_div(sf.rows(), rows), std::max(ceil_div(hidden, cols), ceil_div(sf.groups(), groups)));

        const auto v = load(t.x.block({rows, cols}, {m, n})).split(axis<1>, group);
        const auto amax = cast<f32>(reduce_max(abs(v), axis<2>)).squeeze(axis<2>);
        const auto scales = scales_of(amax, limits_of(Out), round);
        sf.store(scales, {rows, groups}, m, n);
        if (codes)
            store(t.y.block({rows, cols}, {m, n}), encode<Out>(v, scales.inv.unsqueeze(axis<2>), round).merge(axis<1>));
    });
}

template <Element In, Element Out>
Program rows_program(std::int64_t hidden, ScaleLayout layout, bool round, bool aligned, bool codes) {
    return record("per_token_cast_rows", [=](Kernel& k) {
        const CastTensors<In, Out> t(k, hidden, aligned, codes);
        const ScaleOutput sf(k, layout, t.tokens, 1);
        const std::int64_t vector = std::max<std::int64_t>(
            aligned ? std::gcd<std::int64_t>(hidden, 128 / bits_of(In)) : 1, packed_elements_of(Out));
        const auto [rows, cols, threads] = tile_of_rows(hidden, vector);
        k.threads(threads);
        // Packed scales: groups 1 … 3 of the word are padding, written by the same block.
        const std::int64_t groups = sf.groups();
        const auto [m] = k.grid(ceil_div(sf.rows(), rows));

        const auto v = load(t.x.block({rows, cols}, {m, 0}));
        const auto amax = cast<f32>(reduce_max(abs(v), axis<1>));
        const auto scales = scales_of(amax, limits_of(Out), round);
        sf.store(spread(scales, {rows, groups}), {rows, groups}, m, 0);
        if (codes) store(t.y.block({rows, cols}, {m, 0}), encode<Out>(v, scales.inv, round));
    });
}

/// One row a block in steps, read twice: the second time from cache.
template <Element In, Element Out>
Program long_rows_program(std::int64_t hidden, ScaleLayout layout, bool round, bool aligned, bool codes) {
    return record("per_token_cast_long_rows", [=](Kernel& k) {
        const CastTensors<In, Out> t(k, hidden, aligned, codes);
        const ScaleOutput sf(k, layout, t.tokens, 1);
        constexpr int threads = 256;
        constexpr std::int64_t cols = threads * elements_per_thread;
        const std::int64_t groups = sf.groups();
        k.threads(threads);
        const auto [m] = k.grid(sf.rows());

        auto largest = k.variable(full({1, 1}, Value<f32, 0>(0.0f)));
        k.serial(ceil_div(hidden, cols), [&](Index step) {
            const auto v = load(t.x.block({1, cols}, {m, step}));
            largest = max(largest.get(), cast<f32>(reduce_max(abs(v), axis<1>)));
        });
        const auto scales = scales_of(largest.get(), limits_of(Out), round);
        sf.store(spread(scales, {1, groups}), {1, groups}, m, 0);
        if (!codes) return;
        k.serial(ceil_div(hidden, cols), [&](Index step) {
            const auto v = load(t.x.block({1, cols}, {m, step}));
            store(t.y.block({1, cols}, {m, step}), encode<Out>(v, scales.inv, round));
        });
    });
}

template <Element In, Element Out>
Program recorded(std::int64_t hidden, const CastOptions& o, bool aligned, bool codes) {
    const bool round = rounds(o.scale_layout, o.round_sf);
    if (o.num_per_channels != hidden || hidden == 16 || hidden == 32 || hidden == 64 || hidden == 128)
        return groups_program<In, Out>(hidden, o.num_per_channels, o.scale_layout, round, aligned, codes);
    return hidden <= longest_row_in_registers
               ? rows_program<In, Out>(hidden, o.scale_layout, round, aligned, codes)
               : long_rows_program<In, Out>(hidden, o.scale_layout, round, aligned, codes);
}

void check_options(std::int64_t hidden, const CastOptions& o) {
    if (o.format != e4m3 && o.format != e2m1 && o.format != e5m6)
        throw UsageError(fmt::format("per_token_cast: format is {}; use e4m3, e2m1 or e5m6", name_of(o.format)));
    const std::int64_t n = o.num_per_channels;
    const bool grouped = (n == 16 || n == 32 || n == 64 || n == 128) && o.format != e5m6;
    if (!grouped && n != hidden)
        throw UsageError(fmt::format("per_token_cast: num_per_channels is {}; it is {}the row's {} channels", n,
                                     o.format == e5m6 ? "for e5m6 " : "16, 32, 64, 128 or ", hidden));
    check_whole_bytes("per_token_cast", o.format, hidden);
}

ScaleShape scale_shape(const TensorView& x, const CastOptions& o) {
    return {o.scale_layout, x.extents[0], ceil_div(x.extents[1], o.num_per_channels)};
}

Program recorded_for(Element in, std::int64_t hidden, const CastOptions& options, bool aligned, bool codes) {
    check_options(hidden, options);
    if (in != bf16 && in != f32)
        throw UsageError(fmt::format("per_token_cast: the input is {}; this cast takes bf16 or f32", name_of(in)));
    return with_element<bf16, f32>(in, [&]<Element In>() {
        return with_element<e4m3, e2m1, e5m6>(
            options.format, [&]<Element Out>() { return recorded<In, Out>(hidden, options, aligned, codes); });
    });
}

/// Starts the kernel on checked arguments. data: null if only the scales are asked for.
void start(const Stream& stream, const TensorView& x, const TensorView* data, const TensorView& sf,
           const CastOptions& options) {
    check_scales("per_token_cast", sf, scale_shape(x, options));
    if (x.extents[0] == 0) return;
    const std::int64_t hidden = x.extents[1];
    const bool aligned = rows_aligned(x, data ? *data : x), codes = data != nullptr;
    const KernelId id("per_token_cast",
                      {x.element, options.format, hidden, options.num_per_channels, options.scale_layout,
                       rounds(options.scale_layout, options.round_sf), aligned, codes});
    const CompiledKernel& kernel =
        Engine::of(stream).kernel(stream, id, [&] { return recorded_for(x.element, hidden, options, aligned, codes); });
    launch_cast(kernel, stream, x, data, sf, scale_shape(x, options));
}

}  // namespace

Program per_token_cast_program(Element in, std::int64_t hidden, const CastOptions& options, bool aligned) {
    return recorded_for(in, hidden, options, aligned, true);
}

Program per_token_cast_with_sf_only_program(Element in, std::int64_t hidden, const CastOptions& options, bool aligned) {
    return recorded_for(in, hidden, options, aligned, false);
}

void per_token_cast(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                    const CastOptions& options) {
    check_input("per_token_cast", stream, x);
    check_options(x.extents[1], options);
    check_codes("per_token_cast", data, options.format, x);
    start(stream, x, &data, sf, options);
}

Quantized per_token_cast(const Stream& stream, const TensorView& x, const CastOptions& options) {
    check_input("per_token_cast", stream, x);
    check_options(x.extents[1], options);
    Quantized result{Tensor::empty(stream, options.format, x.extents), empty_scales(stream, scale_shape(x, options))};
    per_token_cast(stream, x, result.data, result.sf, options);
    return result;
}

void per_token_cast_with_sf_only(const Stream& stream, const TensorView& x, const TensorView& sf,
                                 const CastOptions& options) {
    check_input("per_token_cast_with_sf_only", stream, x);
    check_options(x.extents[1], options);
    start(stream, x, nullptr, sf, options);
}

Tensor per_token_cast_with_sf_only(const Stream& stream, const TensorView& x, const CastOptions& options) {
    check_input("per_token_cast_with_sf_only", stream, x);
    check_options(x.extents[1], options);
    Tensor sf = empty_scales(stream, scale_shape(x, options));
    per_token_cast_with_sf_only(stream, x, sf, options);
    return sf;
}

}  // namespace tessera::quant

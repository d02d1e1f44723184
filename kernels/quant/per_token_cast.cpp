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
/// Narrow accesses scatter a thread's elements over rows and groups, each with its mask and its divisions; rows of odd
/// lengths do so with masks: fewer elements a thread then.
Tile tile_of_groups(std::int64_t hidden, std::int64_t group, ScaleLayout layout, bool aligned) {
    constexpr int threads = 128;
    const bool wide = aligned && hidden % 64 == 0;
    const std::int64_t elements = threads * (wide ? elements_per_thread : elements_per_thread / (aligned ? 4 : 8));
    // At least 64 columns: rows of odd lengths cost padding rather than short pieces.
    std::int64_t cols = std::max<std::int64_t>({group, std::gcd(hidden, elements / 4), 64});
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

/// What a kernel is specialised for.
struct Form {
    std::int64_t hidden;
    CastOptions options;
    bool aligned;
    bool codes;  // are written, not only scales
    bool round() const { return rounds(options.scale_layout, options.round_sf); }
};

/// y to the nearest multiple of 2⁻²⁰ where |y| < 2⁻¹⁴: the unit in the last place of 8 is 2⁻²⁰.
template <int R>
Value<f32, R> to_e5m6_units(const Value<f32, R>& y) {
    const auto magnitude = abs(y);
    const auto units = bitcast<u32>((magnitude + 8.0f) - 8.0f);
    return select(magnitude < 0x1p-14f, bitcast<f32>(units | (bitcast<u32>(y) & 0x80000000u)), y);
}

template <Element Out, Element In, int R>
Value<Out, R> codes_of(const Form& f, const Value<In, R>& v, const Value<f32, R>& inv) {
    if (Out == e5m6 && f.options.round_subnormals) return cast<Out>(to_e5m6_units(cast<f32>(v) * inv));
    return encode<Out>(v, inv, f.round());
}

template <Element In, Element Out>
Program groups_program(const Form& f) {
    return record("per_token_cast", [=](Kernel& k) {
        const CastTensors<In, Out> t(k, f.hidden, f.aligned, f.codes);
        const std::int64_t group = f.options.num_per_channels;
        const ScaleOutput sf(k, f.options.scale_layout, t.tokens, ceil_div(f.hidden, group));
        const auto [rows, cols, threads] = tile_of_groups(f.hidden, group, f.options.scale_layout, f.aligned);
        const std::int64_t groups = cols / group;
        k.threads(threads, f.aligned ? 0 : 1);  // masks of single elements fill the registers
        const auto [m, n] =
            k.grid(ceil_div(sf.rows(), rows), std::max(ceil_div(f.hidden, cols), ceil_div(sf.groups(), groups)));

        const auto v = load(t.x.block({rows, cols}, {m, n})).split(axis<1>, group);
        const auto amax = cast<f32>(reduce_max(abs(v), axis<2>)).squeeze(axis<2>);
        const auto scales = scales_of(amax, limits_of(Out), f.round());
        sf.store(scales, {rows, groups}, m, n);
        if (f.codes)
            store(t.y.block({rows, cols}, {m, n}), codes_of<Out>(f, v, scales.inv.unsqueeze(axis<2>)).merge(axis<1>));
    });
}

template <Element In, Element Out>
Program rows_program(const Form& f) {
    return record("per_token_cast_rows", [=](Kernel& k) {
        const CastTensors<In, Out> t(k, f.hidden, f.aligned, f.codes);
        const ScaleOutput sf(k, f.options.scale_layout, t.tokens, 1);
        const std::int64_t vector = std::max<std::int64_t>(
            f.aligned ? std::gcd<std::int64_t>(f.hidden, 128 / bits_of(In)) : 1, packed_elements_of(Out));
        const auto [rows, cols, threads] = tile_of_rows(f.hidden, vector);
        k.threads(threads);
        // Packed scales: groups 1 … 3 of the word are padding, written by the same block.
        const std::int64_t groups = sf.groups();
        const auto [m] = k.grid(ceil_div(sf.rows(), rows));

        const auto v = load(t.x.block({rows, cols}, {m, 0}));
        const auto amax = cast<f32>(reduce_max(abs(v), axis<1>));
        const auto scales = scales_of(amax, limits_of(Out), f.round());
        sf.store(spread(scales, {rows, groups}), {rows, groups}, m, 0);
        if (f.codes) store(t.y.block({rows, cols}, {m, 0}), codes_of<Out>(f, v, scales.inv));
    });
}

/// One row a block in steps, read twice: the second time from cache.
template <Element In, Element Out>
Program long_rows_program(const Form& f) {
    return record("per_token_cast_long_rows", [=](Kernel& k) {
        const CastTensors<In, Out> t(k, f.hidden, f.aligned, f.codes);
        const ScaleOutput sf(k, f.options.scale_layout, t.tokens, 1);
        constexpr int threads = 256;
        constexpr std::int64_t cols = threads * elements_per_thread;
        const std::int64_t groups = sf.groups();
        k.threads(threads);
        const auto [m] = k.grid(sf.rows());

        auto largest = k.variable(full({1, 1}, Value<f32, 0>(0.0f)));
        k.serial(ceil_div(f.hidden, cols), [&](Index step) {
            const auto v = load(t.x.block({1, cols}, {m, step}));
            largest = max(largest.get(), cast<f32>(reduce_max(abs(v), axis<1>)));
        });
        const auto scales = scales_of(largest.get(), limits_of(Out), f.round());
        sf.store(spread(scales, {1, groups}), {1, groups}, m, 0);
        if (!f.codes) return;
        k.serial(ceil_div(f.hidden, cols), [&](Index step) {
            const auto v = load(t.x.block({1, cols}, {m, step}));
            store(t.y.block({1, cols}, {m, step}), codes_of<Out>(f, v, scales.inv));
        });
    });
}

template <Element In, Element Out>
Program recorded(const Form& f) {
    const std::int64_t n = f.options.num_per_channels;
    if (n != f.hidden || n == 16 || n == 32 || n == 64 || n == 128) return groups_program<In, Out>(f);
    return f.hidden <= longest_row_in_registers ? rows_program<In, Out>(f) : long_rows_program<In, Out>(f);
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

Program recorded_for(Element in, const Form& f) {
    check_options(f.hidden, f.options);
    if (in != bf16 && in != f32)
        throw UsageError(fmt::format("per_token_cast: the input is {}; this cast takes bf16 or f32", name_of(in)));
    return with_element<bf16, f32>(in, [&]<Element In>() {
        return with_element<e4m3, e2m1, e5m6>(f.options.format, [&]<Element Out>() { return recorded<In, Out>(f); });
    });
}

/// Starts the kernel on checked arguments. data: null if only the scales are asked for.
void start(const Stream& stream, const TensorView& x, const TensorView* data, const TensorView& sf,
           const CastOptions& options) {
    const ScaleShape shape = scale_shape(x, options);
    check_scales("per_token_cast", sf, shape);
    if (x.extents[0] == 0) return;
    const Form f{x.extents[1], options, rows_aligned(x, data ? *data : x), data != nullptr};
    const KernelId id("per_token_cast",
                      {x.element, options.format, f.hidden, options.num_per_channels, options.scale_layout, f.round(),
                       options.round_subnormals, f.aligned, f.codes});
    const CompiledKernel& kernel = Engine::of(stream).kernel(stream, id, [&] { return recorded_for(x.element, f); });
    launch_cast(kernel, stream, x, data, sf, shape);
}

}  // namespace

Program per_token_cast_program(Element in, std::int64_t hidden, const CastOptions& options, bool aligned) {
    return recorded_for(in, {hidden, options, aligned, true});
}

Program per_token_cast_with_sf_only_program(Element in, std::int64_t hidden, const CastOptions& options, bool aligned) {
    return recorded_for(in, {hidden, options, aligned, false});
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
    Quantized result = empty_quantized(stream, options.format, x.extents, scale_shape(x, options));
    start(stream, x, &result.data.view(), result.sf, options);
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

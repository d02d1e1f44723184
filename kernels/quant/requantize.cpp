#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "dsl/base/error.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/quant/cast_input.hpp"
#include "kernels/quant/scale_input.hpp"
#include "runtime/engine.hpp"

// per_token_cast of data that is quantized already. The two factors are combined first: y = q · (xs · inv).

namespace tessera::quant {

namespace {

/// Largest magnitude along the last axis, which stays with extent 1. E2M1 codes are in order, so the highest that
/// occurs is looked for; as bits of a subnormal number it needs one multiplication to become the value.
Value<f32, 4> largest_magnitude(const Value<e2m1, 4>& codes) {
    unsigned code = 0;
    const auto occur = reduce_or(map_magnitudes<u8>(codes, [&](float) { return 1u << code++; }), axis<3>);
    const auto highest = (bitcast<u32>(cast<f32>(cast<u32>(occur))) >> 23u) - 127u;
    return bitcast<f32>(highest << 22u) * 0x1p126f;
}
Value<f32, 4> largest_magnitude(const Value<e4m3, 4>& codes) {
    return cast<f32>(reduce_max(abs(cast<f16>(codes)), axis<3>));
}

/// Decoded values times a factor as codes. With powers of two to E2M1 the product is exact in FP16 wherever it matters:
/// a factor past 2¹² meets zeros only. Scales that are powers of two have no sign, so that no product is larger than
/// that of the largest value.
template <Element Out, int R>
Value<Out, R> recoded(const Value<f16, R>& v, const Value<f32, R>& factor, bool exact) {
    if (Out != e2m1 || !exact) return cast<Out>(cast<f32>(v) * factor);
    // No more than 2¹², but NaN for infinity, which makes NaN of the zeros, too.
    return codes_in_range<Out>(v * cast<f16>(fma(factor, 0.0f, min(factor, 4096.0f))));
}
/// The same of codes. Those of E2M1 in a group share a factor, and so a table. NaN, which an infinite factor makes of
/// zeros, has no sign.
template <Element Out, int R>
Value<Out, R> recoded(const Value<e2m1, R>& q, const Value<f32, R>& factor, bool exact) {
    const auto finite = abs(factor) < std::numeric_limits<float>::infinity();
    if (!exact) return map_magnitudes<Out>(q, [&](float m) { return cast<Out>(factor * m); }, finite);
    const auto half = cast<bf16>(factor);
    return map_magnitudes<Out>(q, [&](float m) { return cast<Out>(half * m); }, finite);
}
template <Element Out, int R>
Value<Out, R> recoded(const Value<e4m3, R>& q, const Value<f32, R>& factor, bool exact) {
    return recoded<Out>(cast<f16>(q), factor, exact);
}

/// Columns in three levels: a tile holds `outer` large pieces, each of `ratio` small ones of `small` columns. Scales of
/// the input cover large pieces and groups of the output small ones, or the other way round.
struct Pieces {
    std::int64_t outer, ratio, small;
};

template <Element In, Element Out>
Program recorded(std::int64_t hidden, const QuantizedLayout& from, const CastOptions& o, bool aligned) {
    return record("per_token_cast_requantize", [=](Kernel& k) {
        const CastTensors<In, Out> t(k, hidden, aligned);
        const ScaleInput x_sf(k, from.scale_layout, t.tokens, hidden, from.block_rows, from.block_columns);
        const std::int64_t group = o.num_per_channels;
        const ScaleOutput sf(k, o.scale_layout, t.tokens, ceil_div(hidden, group));
        const bool round = rounds(o.scale_layout, o.round_sf);
        // 64 codes a thread, so that loads overlap and indexing is shared.
        const std::int64_t elements = 128 * (aligned ? 64 : 128 / bits_of(In));
        ScaledTile tile = ScaledTile::choose(hidden, from.block_rows, elements);
        if (o.scale_layout == ScaleLayout::packed_ue8m0)
            tile = {std::max<std::int64_t>(1, std::min(tile.rows, elements / (4 * group))),
                    std::max(tile.cols, 4 * group)};
        const std::int64_t shared = x_sf.shared_columns(tile);
        const std::int64_t large = std::max(shared, group), small = std::min(shared, group);
        const Pieces p{tile.cols / large, large / small, small};
        const bool exact = round && from.scale_layout == ScaleLayout::packed_ue8m0;
        // Scales of narrow blocks, and products in FP32, fill the registers. Else 48 hold all that a thread loads at
        // once; left alone, the compiler puts loads off to save some.
        k.threads(128, !aligned || small < 16 ? 1 : exact ? 10 : 0);
        const auto [m, n] = k.grid(ceil_div(sf.rows(), tile.rows),
                                   std::max(ceil_div(hidden, tile.cols), ceil_div(sf.groups(), tile.cols / group)));

        const auto codes = load(t.x.block({tile.rows, tile.cols}, {m, n}))
                               .split(axis<1>, large)
                               .split(axis<2>, small);                          // [rows, outer, ratio, small]
        auto xs = x_sf.load(tile, m, n).unsqueeze(axis<2>).unsqueeze(axis<3>);  // [rows or 1, outer · …, 1, 1]
        if (shared == small && p.ratio > 1)
            xs = xs.squeeze(axis<3>).squeeze(axis<2>).split(axis<1>, p.ratio).unsqueeze(axis<3>);
        const auto largest = largest_magnitude(codes) * xs;  // [rows, outer, ratio, 1]
        const auto store_codes = [&](const auto& inv) {
            // A thread that holds few codes of a group is done sooner with their values than with a table.
            const auto out =
                aligned ? recoded<Out>(codes, xs * inv, exact) : recoded<Out>(cast<f16>(codes), xs * inv, exact);
            store(t.y.block({tile.rows, tile.cols}, {m, n}), out.merge(axis<2>).merge(axis<1>));
        };
        if (group == small) {
            const auto scales = scales_of(largest.squeeze(axis<3>).merge(axis<1>), limits_of(Out), round);
            sf.store(scales, {tile.rows, tile.cols / group}, m, n);
            store_codes(scales.inv.split(axis<1>, p.ratio).unsqueeze(axis<3>));
        } else {
            const auto scales =
                scales_of(reduce_max(largest, axis<2>).squeeze(axis<3>).squeeze(axis<2>), limits_of(Out), round);
            sf.store(scales, {tile.rows, tile.cols / group}, m, n);
            store_codes(scales.inv.unsqueeze(axis<2>).unsqueeze(axis<3>));
        }
    });
}

/// One scale a row: the codes are read twice, the second time from cache.
template <Element In, Element Out>
Program rows_recorded(std::int64_t hidden, const QuantizedLayout& from, const CastOptions& o, bool aligned) {
    return record("per_token_cast_requantize_rows", [=](Kernel& k) {
        const CastTensors<In, Out> t(k, hidden, aligned);
        const ScaleInput x_sf(k, from.scale_layout, t.tokens, hidden, from.block_rows, from.block_columns);
        const ScaleOutput sf(k, o.scale_layout, t.tokens, 1);
        const bool round = rounds(o.scale_layout, o.round_sf);
        const ScaledTile tile = ScaledTile::choose(hidden, from.block_rows, 4096);
        const std::int64_t shared = x_sf.shared_columns(tile), groups = sf.groups();
        k.threads(128, 1);
        const auto [m] = k.grid(ceil_div(sf.rows(), tile.rows));
        // Two codes that share a byte stay in one thread, also where each has a scale of its own.
        const LoadOptions pairs{.per_thread = bits_of(In) < 8 && shared == 1 ? Shape{1, 2} : Shape{}};
        const auto codes = [&](const Index& step) {
            return cast<f16>(load(t.x.block({tile.rows, tile.cols}, {m, step}), pairs)).split(axis<1>, shared);
        };

        auto largest = k.variable(full({tile.rows, 1}, Value<f32, 0>(0.0f)));
        k.serial(ceil_div(hidden, tile.cols), [&](Index step) {
            const auto scaled = cast<f32>(reduce_max(abs(codes(step)), axis<2>)).squeeze(axis<2>) *
                                x_sf.load(tile, m, step);  // [rows, pieces]
            largest = max(largest.get(), reduce_max(scaled, axis<1>));
        });
        const auto scales = scales_of(largest.get(), limits_of(Out), round);
        sf.store(spread(scales, {tile.rows, groups}), {tile.rows, groups}, m, 0);
        k.serial(ceil_div(hidden, tile.cols), [&](Index step) {
            const auto factor = (x_sf.load(tile, m, step) * scales.inv).unsqueeze(axis<2>);
            const bool exact = round && from.scale_layout == ScaleLayout::packed_ue8m0;
            store(t.y.block({tile.rows, tile.cols}, {m, step}),
                  recoded<Out>(codes(step), factor, exact).merge(axis<1>));
        });
    });
}

void check(std::int64_t hidden, const CastOptions& o) {
    if (o.format != e4m3 && o.format != e2m1)
        throw UsageError(fmt::format("per_token_cast: re-quantization to {}; use e4m3 or e2m1", name_of(o.format)));
    const std::int64_t n = o.num_per_channels;
    if (n != 16 && n != 32 && n != 64 && n != 128 && n != hidden)
        throw UsageError(fmt::format(
            "per_token_cast: num_per_channels is {}; it is 16, 32, 64, 128 or the row's {} channels", n, hidden));
    check_whole_bytes("per_token_cast", o.format, hidden);
}

}  // namespace

Program per_token_cast_program(Element in, const QuantizedLayout& from, std::int64_t hidden, const CastOptions& options,
                               bool aligned) {
    check(hidden, options);
    if (in != e4m3 && in != e2m1)
        throw UsageError(fmt::format("per_token_cast: the quantized input is {}; use e4m3 or e2m1", name_of(in)));
    check_whole_bytes("per_token_cast", in, hidden);
    const std::int64_t n = options.num_per_channels;
    const bool grouped = n == 16 || n == 32 || n == 64 || n == 128;
    return with_element<e4m3, e2m1>(in, [&]<Element In>() {
        return with_element<e4m3, e2m1>(options.format, [&]<Element Out>() {
            return grouped ? recorded<In, Out>(hidden, from, options, aligned)
                           : rows_recorded<In, Out>(hidden, from, options, aligned);
        });
    });
}

void per_token_cast(const Stream& stream, const QuantizedView& x, const TensorView& data, const TensorView& sf,
                    const CastOptions& options) {
    check_quantized("per_token_cast", stream, x);
    const std::int64_t tokens = x.data.extents[0], hidden = x.data.extents[1];
    if (x.data.element == e5m6)
        throw UsageError("per_token_cast: the quantized input is e5m6; use e4m3 or e2m1, or cast it back first");
    check(hidden, options);
    const ScaleShape shape{options.scale_layout, tokens, ceil_div(hidden, options.num_per_channels)};
    check_codes("per_token_cast", data, options.format, x.data);
    check_scales("per_token_cast", sf, shape);
    if (tokens == 0) return;
    const bool aligned = rows_aligned(x.data, data);
    const KernelId id(
        "per_token_cast_requantize",
        {x.data.element, x.scale_layout, x.block_rows, x.block_columns, options.format, hidden,
         options.num_per_channels, options.scale_layout, rounds(options.scale_layout, options.round_sf), aligned});
    const CompiledKernel& kernel = Engine::of(stream).kernel(
        stream, id, [&] { return per_token_cast_program(x.data.element, x.layout(), hidden, options, aligned); });
    launch_scaled(kernel, stream, x, data, &sf, &shape);
}

Quantized per_token_cast(const Stream& stream, const QuantizedView& x, const CastOptions& options) {
    check_quantized("per_token_cast", stream, x);
    check(x.data.extents[1], options);
    const ScaleShape shape{options.scale_layout, x.data.extents[0],
                           ceil_div(x.data.extents[1], options.num_per_channels)};
    Quantized result = empty_quantized(stream, options.format, x.data.extents, shape);
    per_token_cast(stream, x, result.data, result.sf, options);
    return result;
}

}  // namespace tessera::quant

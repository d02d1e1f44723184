#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/check.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/quant/cast_input.hpp"
#include "kernels/quant/scale_input.hpp"
#include "runtime/engine.hpp"

// per_token_cast and per_block_cast with scales that the caller gives: y = x · (1 / sf).

namespace tessera::quant {

namespace {

/// One of the two functions, with its blocks.
struct Cast {
    KernelName name;
    std::int64_t block_rows, block_columns;
};
Cast by_tokens(std::int64_t num_per_channels) { return {"per_token_cast_with_precomputed_sf", 1, num_per_channels}; }
Cast by_blocks(std::int64_t rows, std::int64_t columns) {
    return {"per_block_cast_with_precomputed_sf", rows, columns};
}

template <Element In, Element Out>
Program recorded(std::int64_t hidden, const Cast& c, bool aligned) {
    return record(c.name.text, [=](Kernel& k) {
        const CastTensors<In, Out> t(k, hidden, aligned);
        const ScaleInput sf(k, ScaleLayout::row_major, t.tokens, hidden, c.block_rows, c.block_columns);
        const ScaledTile tile = ScaledTile::choose(hidden, c.block_rows, 4096);
        k.threads(128);
        const auto [m, n] = k.grid(ceil_div(t.tokens, tile.rows), ceil_div(hidden, tile.cols));

        const auto v = load(t.x.block({tile.rows, tile.cols}, {m, n})).split(axis<1>, sf.shared_columns(tile));
        const auto inv = 1.0f / sf.load(tile, m, n).unsqueeze(axis<2>);
        store(t.y.block({tile.rows, tile.cols}, {m, n}), cast<Out>((cast<f32>(v) * inv).merge(axis<1>)));
    });
}

void check_options(std::int64_t hidden, const Cast& c, Element format) {
    if (format != e4m3 && format != e2m1)
        throw UsageError(fmt::format("{}: format is {}; use e4m3 or e2m1", c.name.text, name_of(format)));
    const std::int64_t n = c.block_columns;
    if (c.block_rows == 1 && n != 16 && n != 32 && n != 64 && n != 128 && n != hidden)
        throw UsageError(fmt::format("{}: num_per_channels is {}; it is 16, 32, 64, 128 or the row's {} channels",
                                     c.name.text, n, hidden));
    check_whole_bytes(c.name.text, format, hidden);
}

/// Errors: UsageError unless both sides are 32 or 128.
Cast checked_blocks(std::int64_t rows, std::int64_t columns) {
    const Cast c = by_blocks(rows, columns);
    for (std::int64_t side : {rows, columns})
        if (side != 32 && side != 128)
            throw UsageError(fmt::format("{}: blocks of {} × {}; each side is 32 or 128", c.name.text, rows, columns));
    return c;
}

Shape scale_extents(const TensorView& x, const Cast& c) {
    return {ceil_div(x.extents[0], c.block_rows), ceil_div(x.extents[1], c.block_columns)};
}

void check_given_scales(const Cast& c, const Stream& stream, const TensorView& sf, const Shape& extents) {
    if (sf.element != f32 || !(sf.extents == extents) || !sf.is_contiguous())
        throw UsageError(fmt::format("{}: sf is {} {} with strides {}, but must be f32 {} and dense", c.name.text,
                                     name_of(sf.element), text_of(sf.extents), text_of(sf.strides), text_of(extents)));
    check_device(c.name.text, "sf", stream, sf);
}

Program program(const Cast& c, Element in, std::int64_t hidden, Element format, bool aligned) {
    check_options(hidden, c, format);
    if (in != bf16 && in != f32)
        throw UsageError(fmt::format("{}: the input is {}; this cast takes bf16 or f32", c.name.text, name_of(in)));
    return with_element<bf16, f32>(in, [&]<Element In>() {
        return with_element<e4m3, e2m1>(format, [&]<Element Out>() { return recorded<In, Out>(hidden, c, aligned); });
    });
}

void run(const Cast& c, const Stream& stream, const TensorView& x, const TensorView& sf, const TensorView& data) {
    check_input(c.name.text, stream, x);
    const std::int64_t hidden = x.extents[1];
    check_options(hidden, c, data.element);
    check_given_scales(c, stream, sf, scale_extents(x, c));
    check_codes(c.name.text, data, data.element, x);
    if (x.extents[0] == 0) return;
    const bool aligned = rows_aligned(x, data);
    const KernelId id(c.name, {x.element, data.element, hidden, c.block_rows, c.block_columns, aligned});
    const CompiledKernel& kernel =
        Engine::of(stream).kernel(stream, id, [&] { return program(c, x.element, hidden, data.element, aligned); });
    launch_scaled(kernel, stream, {x, sf, ScaleLayout::row_major, c.block_rows, c.block_columns}, data);
}

Tensor returned(const Cast& c, const Stream& stream, const TensorView& x, const TensorView& sf, Element format) {
    check_input(c.name.text, stream, x);
    check_options(x.extents[1], c, format);
    check_given_scales(c, stream, sf, scale_extents(x, c));
    Tensor data = Tensor::empty(stream, format, x.extents);
    run(c, stream, x, sf, data);
    return data;
}

}  // namespace

Program per_token_cast_with_precomputed_sf_program(Element in, std::int64_t hidden, std::int64_t num_per_channels,
                                                   Element format, bool aligned) {
    return program(by_tokens(num_per_channels), in, hidden, format, aligned);
}

void per_token_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                        const TensorView& data, std::int64_t num_per_channels) {
    run(by_tokens(num_per_channels), stream, x, sf, data);
}

Tensor per_token_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                          std::int64_t num_per_channels, Element format) {
    return returned(by_tokens(num_per_channels), stream, x, sf, format);
}

Program per_block_cast_with_precomputed_sf_program(Element in, std::int64_t hidden, std::int64_t block_rows,
                                                   std::int64_t block_columns, Element format, bool aligned) {
    return program(checked_blocks(block_rows, block_columns), in, hidden, format, aligned);
}

void per_block_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                        const TensorView& data, std::int64_t block_rows, std::int64_t block_columns) {
    run(checked_blocks(block_rows, block_columns), stream, x, sf, data);
}

Tensor per_block_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                          std::int64_t block_rows, std::int64_t block_columns, Element format) {
    return returned(checked_blocks(block_rows, block_columns), stream, x, sf, format);
}

}  // namespace tessera::quant

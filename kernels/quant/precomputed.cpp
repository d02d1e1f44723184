#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/quant/cast_input.hpp"
#include "kernels/quant/scale_input.hpp"
#include "runtime/engine.hpp"

// per_token_cast with scales that the caller gives: y = x · (1 / sf).

namespace tessera::quant {

namespace {

constexpr const char* name = "per_token_cast_with_precomputed_sf";

template <Element In, Element Out>
Program recorded(std::int64_t hidden, std::int64_t group, bool aligned) {
    return record(name, [=](Kernel& k) {
        const CastTensors<In, Out> t(k, hidden, aligned);
        const ScaleInput sf(k, ScaleLayout::row_major, t.tokens, hidden, 1, group);
        const ScaledTile tile = ScaledTile::choose(hidden, 1, 4096);
        k.threads(128);
        const auto [m, n] = k.grid(ceil_div(t.tokens, tile.rows), ceil_div(hidden, tile.cols));

        const auto v = load(t.x.block({tile.rows, tile.cols}, {m, n})).split(axis<1>, sf.shared_columns(tile));
        const auto inv = 1.0f / sf.load(tile, m, n).unsqueeze(axis<2>);
        store(t.y.block({tile.rows, tile.cols}, {m, n}), cast<Out>((cast<f32>(v) * inv).merge(axis<1>)));
    });
}

void check_options(std::int64_t hidden, std::int64_t n, Element format) {
    if (format != e4m3 && format != e2m1)
        throw UsageError(fmt::format("{}: format is {}; use e4m3 or e2m1", name, name_of(format)));
    if (n != 16 && n != 32 && n != 64 && n != 128 && n != hidden)
        throw UsageError(
            fmt::format("{}: num_per_channels is {}; it is 16, 32, 64, 128 or the row's {} channels", name, n, hidden));
    check_whole_bytes(name, format, hidden);
}

void check_given_scales(const Stream& stream, const TensorView& sf, const Shape& extents) {
    if (sf.element != f32 || !(sf.extents == extents) || !sf.is_contiguous())
        throw UsageError(fmt::format("{}: sf is {} {} with strides {}, but must be f32 {} and dense", name,
                                     name_of(sf.element), text_of(sf.extents), text_of(sf.strides), text_of(extents)));
    if (!sf.device.shares_memory(stream.device()))
        throw UsageError(fmt::format("{}: sf lies on {}, but the stream is of {}; copy it there first", name,
                                     sf.device.name(), stream.device().name()));
}

}  // namespace

Program per_token_cast_with_precomputed_sf_program(Element in, std::int64_t hidden, std::int64_t num_per_channels,
                                                   Element format, bool aligned) {
    check_options(hidden, num_per_channels, format);
    if (in != bf16 && in != f32)
        throw UsageError(fmt::format("{}: the input is {}; this cast takes bf16 or f32", name, name_of(in)));
    return with_element<bf16, f32>(in, [&]<Element In>() {
        return with_element<e4m3, e2m1>(
            format, [&]<Element Out>() { return recorded<In, Out>(hidden, num_per_channels, aligned); });
    });
}

void per_token_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                        const TensorView& data, std::int64_t num_per_channels) {
    check_input(name, stream, x);
    const std::int64_t tokens = x.extents[0], hidden = x.extents[1];
    check_options(hidden, num_per_channels, data.element);
    check_given_scales(stream, sf, {tokens, ceil_div(hidden, num_per_channels)});
    check_codes(name, data, data.element, x);
    if (tokens == 0) return;
    const bool aligned = rows_aligned(x, data);
    const KernelId id(name, {x.element, data.element, hidden, num_per_channels, aligned});
    const CompiledKernel& kernel = Engine::of(stream).kernel(stream, id, [&] {
        return per_token_cast_with_precomputed_sf_program(x.element, hidden, num_per_channels, data.element, aligned);
    });
    launch_scaled(kernel, stream, {x, sf, ScaleLayout::row_major, 1, num_per_channels}, data);
}

Tensor per_token_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                          std::int64_t num_per_channels, Element format) {
    check_input(name, stream, x);
    check_options(x.extents[1], num_per_channels, format);
    check_given_scales(stream, sf, {x.extents[0], ceil_div(x.extents[1], num_per_channels)});
    Tensor data = Tensor::empty(stream, format, x.extents);
    per_token_cast_with_precomputed_sf(stream, x, sf, data, num_per_channels);
    return data;
}

}  // namespace tessera::quant

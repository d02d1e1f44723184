#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/quant/channel.hpp"
#include "runtime/engine.hpp"

namespace tessera::quant {

namespace {

/// Each thread holds a micro-tile of 16 tokens × 8 channels: 16 bytes of a row of x on the way in, 16 codes of a
/// channel on the way out, and eight threads make the 128 bytes of a channel. Codes never pass through shared memory.
template <Element In>
Program recorded(std::int64_t hidden, const ChannelCastOptions& o, bool aligned) {
    return record("per_channel_cast_and_transpose", [=](Kernel& k) {
        // Two warps, side by side along the tokens: 128 bytes of a row on the way in, too.
        const std::int64_t rows = strip_rows, cols = aligned ? 64 : strip_columns;
        const Dim tokens = k.dim("tokens", multiple_of(aligned ? 16 : 1));
        const Dim pitch = k.dim("x_pitch", multiple_of(aligned ? 128 / bits_of(In) : 1));
        const auto x =
            k.input<In>("x", {tokens, hidden}, {.align = aligned ? 16 : least_align(In), .strides = {pitch, 1}});
        const auto y = k.output<e4m3>("y", {hidden, tokens}, {.align = aligned ? 16 : 1});
        const auto sf = k.output<f32>("sf", {ceil_div(tokens, o.num_per_tokens), hidden}, {.align = aligned ? 16 : 4});
        k.threads(aligned ? 64 : strip_threads);
        const auto [m, n] = k.grid(ceil_div(tokens, rows), ceil_div(hidden, cols));

        const auto v = load(x.block({rows, cols}, {m, n}), {.per_thread = {aligned ? 16 : 8, aligned ? 8 : 4}})
                           .split(axis<0>, o.num_per_tokens);
        const auto scales = scales_of(channel_maxima(v), limits_of(e4m3), o.round_sf);
        store(sf.block({rows / o.num_per_tokens, cols}, {m, n}), scales.sf.squeeze(axis<1>));
        const auto codes = encode<e4m3>(v, scales.inv, o.round_sf).merge(axis<0>);
        store(y.block({cols, rows}, {n, m}), codes.template permute<1, 0>());
    });
}

constexpr const char* name = "per_channel_cast_and_transpose";

}  // namespace

Program per_channel_cast_and_transpose_program(Element in, std::int64_t hidden, const ChannelCastOptions& options,
                                               bool aligned) {
    check_channel_options(name, options);
    if (in != bf16 && in != f32)
        throw UsageError(fmt::format("{}: the input is {}; this cast takes bf16 or f32", name, name_of(in)));
    return with_element<bf16, f32>(in, [&]<Element In>() { return recorded<In>(hidden, options, aligned); });
}

void per_channel_cast_and_transpose(const Stream& stream, const TensorView& x, const TensorView& data,
                                    const TensorView& sf, const ChannelCastOptions& options) {
    check_input(name, stream, x);
    check_channel_options(name, options);
    const std::int64_t tokens = x.extents[0], hidden = x.extents[1];
    check_channel_outputs(name, data, {hidden, tokens}, sf, tokens, hidden, options);
    if (tokens == 0) return;
    const bool aligned =
        rows_aligned(x, data) && tokens % 16 == 0 && reinterpret_cast<std::uintptr_t>(sf.data) % 16 == 0;
    const KernelId id(name, {x.element, hidden, options.num_per_tokens, options.round_sf, aligned});
    TensorView codes = data;
    if (hidden == 1) codes.strides[0] = tokens;
    Engine::of(stream)
        .kernel(stream, id, [&] { return per_channel_cast_and_transpose_program(x.element, hidden, options, aligned); })
        .launch(stream, {pitched(x), codes, sf});
}

Quantized per_channel_cast_and_transpose(const Stream& stream, const TensorView& x, const ChannelCastOptions& options) {
    check_input(name, stream, x);
    check_channel_options(name, options);
    const std::int64_t tokens = x.extents[0], hidden = x.extents[1];
    auto [codes, scales] =
        Tensor::empty_together(stream, {{e4m3, {hidden, tokens}}, {f32, channel_scales(tokens, hidden, options)}});
    Quantized result{std::move(codes), std::move(scales)};
    per_channel_cast_and_transpose(stream, x, result.data, result.sf, options);
    return result;
}

}  // namespace tessera::quant

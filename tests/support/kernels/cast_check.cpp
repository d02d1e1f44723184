#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <tessera/quant.hpp>

#include "tests/support/inputs.hpp"
#include "tests/support/kernels/checks.hpp"
#include "tests/support/kernels/guarded.hpp"
#include "tests/support/reference/quantize.hpp"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

quant::ScaleLayout layout_of(reference::Scales scales) {
    switch (scales) {
        case reference::Scales::row_major: return quant::ScaleLayout::row_major;
        case reference::Scales::column_major: return quant::ScaleLayout::column_major;
        default: return quant::ScaleLayout::packed_ue8m0;
    }
}

struct ScaleView {
    Element element;
    Shape extents, strides;
};

ScaleView scale_view(const CastCase& c) {
    const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    const std::int64_t m = up(c.tokens, c.block_rows), k = up(c.hidden, c.block_columns), run = up(m, 4) * 4;
    switch (c.scales) {
        case reference::Scales::row_major: return {f32, {m, k}, {k, 1}};
        case reference::Scales::column_major: return {f32, {m, k}, {1, run}};
        default: return {i32, {m, up(k, 4)}, {1, run}};
    }
}

Bytes bytes_of(const std::vector<std::uint32_t>& words) {
    Bytes bytes(words.size() * 4);
    if (!words.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
    return bytes;
}

std::string compare_codes(const CastCase& c, const Bytes& got, const Bytes& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (got[i] != expected[i])
            return fmt::format("code [{}, {}] is {:#04x}, the reference has {:#04x}", i / c.hidden, i % c.hidden,
                               got[i], expected[i]);
    return "";
}

std::string compare_scales(const Bytes& got, const Bytes& expected) {
    for (std::size_t i = 0; i < expected.size(); i += 4) {
        std::uint32_t a, b;
        std::memcpy(&a, &got[i], 4), std::memcpy(&b, &expected[i], 4);
        if (a != b) return fmt::format("word {} of the scales is {:#010x}, the reference has {:#010x}", i / 4, a, b);
    }
    return "";
}

/// The memory of a returned tensor, gaps included.
Bytes memory_of(const Stream& stream, const TensorView& view, std::size_t bytes) {
    const auto raw = TensorView::raw(view.device, view.data, static_cast<std::int64_t>(bytes), u8);
    Bytes out(bytes);
    if (bytes > 0)
        copy(stream, TensorView::of(Device::host(), out.data(), u8, {static_cast<std::int64_t>(bytes)}), raw);
    return out;
}

std::string check_returned(const Stream& stream, const CastCase& c, const quant::Quantized& q,
                           const reference::Quantized& expected) {
    const ScaleView sf = scale_view(c);
    if (q.data.element() != e4m3 || !(q.data.extents() == Shape{c.tokens, c.hidden}))
        return "the returned codes have another type or other extents";
    if (q.sf.element() != sf.element || !(q.sf.extents() == sf.extents))
        return "the returned scales have another type or other extents";
    if (q.sf.count() > 0 && !(q.sf.strides() == sf.strides)) return "the returned scales have other strides";
    std::string wrong = compare_codes(c, memory_of(stream, q.data, expected.codes.size()), expected.codes);
    const Bytes scales = bytes_of(expected.scales);
    if (wrong.empty()) wrong = compare_scales(memory_of(stream, q.sf, scales.size()), scales);
    return wrong.empty() ? "" : "returned: " + wrong;
}

template <class Given, class Returned>
std::string check_cast(const Device& device, const CastCase& c, Given&& given, Returned&& returned) {
    const std::int64_t span = c.tokens == 0 ? 0 : (c.tokens - 1) * c.pitch + c.hidden;
    const Bytes values = hard_values(c.type, span, c.seed);
    const reference::Quantized expected =
        reference::quantize({values.data(), c.type == bf16, c.tokens, c.hidden, c.pitch}, c.rule());
    try {
        const Stream stream = device.stream();
        const Guarded x(stream, values, c.shift * (bits_of(c.type) / 8));
        const Guarded codes(stream, static_cast<std::int64_t>(expected.codes.size()));
        const Guarded scales(stream, static_cast<std::int64_t>(expected.scales.size()) * 4);
        const TensorView in = x.view(c.type, {c.tokens, c.hidden}, {c.pitch, 1});
        const ScaleView sf = scale_view(c);
        given(stream, in, codes.view(e4m3, {c.tokens, c.hidden}, {c.hidden, 1}),
              scales.view(sf.element, sf.extents, sf.strides));
        stream.synchronize();
        std::string wrong = compare_codes(c, codes.read(stream), expected.codes);
        if (wrong.empty()) wrong = compare_scales(scales.read(stream), bytes_of(expected.scales));
        if (wrong.empty() && x.read(stream) != values) wrong = "the input has changed";
        if (wrong.empty()) wrong = check_returned(stream, c, returned(stream, in), expected);
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace

std::string check_per_token_cast(const Device& device, const CastCase& c) {
    quant::CastOptions options;
    options.num_per_channels = c.block_columns;
    options.scale_layout = layout_of(c.scales);
    options.round_sf = c.round;
    return check_cast(
        device, c,
        [&](const Stream& stream, const TensorView& x, const TensorView& out, const TensorView& sf) {
            quant::per_token_cast(stream, x, out, sf, options);
        },
        [&](const Stream& stream, const TensorView& x) { return quant::per_token_cast(stream, x, options); });
}

std::string check_per_block_cast(const Device& device, const CastCase& c) {
    quant::BlockCastOptions options;
    options.block_rows = c.block_rows;
    options.block_columns = c.block_columns;
    options.scale_layout = layout_of(c.scales);
    options.round_sf = c.round;
    return check_cast(
        device, c,
        [&](const Stream& stream, const TensorView& x, const TensorView& out, const TensorView& sf) {
            quant::per_block_cast(stream, x, out, sf, options);
        },
        [&](const Stream& stream, const TensorView& x) { return quant::per_block_cast(stream, x, options); });
}

}  // namespace tessera::test

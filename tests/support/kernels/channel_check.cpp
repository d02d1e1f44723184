#include "tests/support/kernels/channel_check.hpp"

#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <tessera/quant.hpp>

#include "tests/support/inputs.hpp"
#include "tests/support/kernels/scale_memory.hpp"
#include "tests/support/reference/formats.hpp"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const std::vector<std::int32_t>& numbers) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(numbers.data());
    return {first, first + numbers.size() * 4};
}

/// Scales of a pair in the reference's memory.
std::vector<std::uint32_t> scale_words_of(const ChannelCase& c) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(scale_words(c.tokens, c.hidden, c.from)));
    const std::int64_t m = (c.tokens + c.from.block_rows - 1) / c.from.block_rows;
    const std::int64_t k = (c.hidden + c.from.block_columns - 1) / c.from.block_columns;
    const std::vector<float> scales = random_scales(m * k, c.from.round, c.seed + 1);
    for (std::int64_t i = 0; i < m * k; ++i) {
        std::uint32_t& word = words[scale_word(i / k, i % k, c.tokens, c.hidden, c.from)];
        std::uint32_t bits;
        std::memcpy(&bits, &scales[i], 4);
        if (c.from.scales == reference::Scales::packed_ue8m0)
            word |= bits >> 23 << (8 * (i % k % 4));
        else
            word = bits;
    }
    return words;
}

/// The input of a case on a device, and its values as FP32, dense.
struct Input {
    Bytes bytes;
    reference::Quantized pair;
    ScaleMemory layout;
    Guarded x, scales;
    quant::QuantizedView view;  // of plain input the data alone counts

    Input(const Stream& stream, const ChannelCase& c)
        : bytes(c.type == e4m3 ? Bytes() : hard_values(c.type, span(c), c.seed)),
          pair(c.type == e4m3
                   ? reference::Quantized{random_codes(reference::Format::e4m3, span(c), c.seed), scale_words_of(c)}
                   : reference::Quantized{}),
          layout(c.tokens, c.hidden, c.type == e4m3 ? c.from : reference::QuantizeRule{1, 128, {}, false}, c.gap),
          x(stream, c.type == e4m3 ? pair.codes : bytes, c.shift * (bits_of(c.type) / 8)),
          scales(stream, c.type == e4m3 ? layout.laid_out(pair.scales) : Bytes()) {
        view.data = x.view(c.type, {c.tokens, c.hidden}, {c.pitch, 1});
        if (c.type != e4m3) return;
        view.sf = scales.view(layout.element, layout.extents, layout.strides);
        view.scale_layout = layout_of(c.from.scales);
        view.block_rows = c.from.block_rows;
        view.block_columns = c.from.block_columns;
    }
    static std::int64_t span(const ChannelCase& c) { return c.tokens == 0 ? 0 : (c.tokens - 1) * c.pitch + c.hidden; }

    float at(const ChannelCase& c, std::int64_t row, std::int64_t column) const {
        if (c.type == e4m3) {
            const float scale = reference::scale_of(pair, row / c.from.block_rows, column / c.from.block_columns,
                                                    c.tokens, c.hidden, c.from);
            return static_cast<float>(reference::e4m3_value(pair.codes[row * c.hidden + column])) * scale;
        }
        return reference::Matrix{bytes.data(), c.type == bf16, c.tokens, c.hidden, c.pitch}.at(row, column);
    }
    bool unchanged(const Stream& stream, const ChannelCase& c) const {
        return x.read(stream) == (c.type == e4m3 ? pair.codes : bytes);
    }
};

reference::QuantizeRule rule_of(const ChannelCase& c) {
    return {c.num_per_tokens, 1, reference::Scales::row_major, c.round};
}

/// Rows of the result as FP32, dense, in their order.
std::vector<float> ordered(const Input& x, const ChannelCase& c, const std::vector<std::int32_t>& order) {
    const std::int64_t rows = c.rows < 0 ? c.tokens : c.rows;
    std::vector<float> values(static_cast<std::size_t>(rows * c.hidden));
    for (std::int64_t p = 0; p < rows; ++p) {
        const std::int64_t row = c.rows < 0 ? p : order[p];
        for (std::int64_t h = 0; h < c.hidden && row >= 0; ++h) values[p * c.hidden + h] = x.at(c, row, h);
    }
    return values;
}

Bytes transposed(const Bytes& codes, std::int64_t rows, std::int64_t columns) {
    Bytes result(codes.size());
    for (std::int64_t i = 0; i < rows * columns; ++i) result[i % columns * rows + i / columns] = codes[i];
    return result;
}

/// given(stream, input, data, sf), returned(stream, input) → Quantized.
template <class Given, class Returned>
std::string check(const Device& device, const ChannelCase& c, bool transpose, Given&& given, Returned&& returned) {
    try {
        const Stream stream = device.stream();
        const Input x(stream, c);
        const std::vector<float> values = ordered(x, c, c.pos_to_token());
        const std::int64_t rows = c.rows < 0 ? c.tokens : c.rows;
        reference::Quantized expected =
            reference::quantize({values.data(), false, rows, c.hidden, c.hidden}, rule_of(c));
        if (transpose) expected.codes = transposed(expected.codes, rows, c.hidden);
        const Shape extents = transpose ? Shape{c.hidden, rows} : Shape{rows, c.hidden};
        const ScaleMemory sf(rows, c.hidden, rule_of(c), 0);
        const Guarded codes(stream, rows * c.hidden), scales(stream, sf.bytes());
        given(stream, x, codes.view(e4m3, extents, {extents[1], 1}), scales.view(f32, sf.extents, sf.strides));
        stream.synchronize();
        std::string wrong = compare_codes(codes.read(stream), expected.codes, extents[1]);
        if (wrong.empty()) wrong = compare_scales(scales.read(stream), sf.laid_out(expected.scales));
        if (wrong.empty() && !x.unchanged(stream, c)) wrong = "the input has changed";
        if (!wrong.empty()) return c.text() + ": " + wrong;

        const quant::Quantized q = returned(stream, x);
        if (q.data.element() != e4m3 || !(q.data.extents() == extents) || q.sf.element() != f32 ||
            !(q.sf.extents() == sf.extents))
            return c.text() + ": what is returned has another type or other extents";
        wrong = compare_codes(memory_of(stream, q.data, expected.codes.size()), expected.codes, extents[1]);
        if (wrong.empty()) {
            const Bytes words = sf.laid_out(expected.scales);
            wrong = compare_scales(memory_of(stream, q.sf, words.size()), words);
        }
        return wrong.empty() ? "" : c.text() + ": returned: " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

quant::ChannelCastOptions options_of(const ChannelCase& c) { return {c.num_per_tokens, c.round}; }

}  // namespace

std::string check_per_channel_cast(const Device& device, const ChannelCase& c) {
    return check(
        device, c, false,
        [&](const Stream& s, const Input& x, const TensorView& data, const TensorView& sf) {
            quant::per_channel_cast(s, x.view.data, data, sf, options_of(c));
        },
        [&](const Stream& s, const Input& x) { return quant::per_channel_cast(s, x.view.data, options_of(c)); });
}

std::string check_per_channel_cast_and_transpose(const Device& device, const ChannelCase& c) {
    return check(
        device, c, true,
        [&](const Stream& s, const Input& x, const TensorView& data, const TensorView& sf) {
            quant::per_channel_cast_and_transpose(s, x.view.data, data, sf, options_of(c));
        },
        [&](const Stream& s, const Input& x) {
            return quant::per_channel_cast_and_transpose(s, x.view.data, options_of(c));
        });
}

std::string check_per_channel_cast_fused(const Device& device, const ChannelCase& c) {
    const Stream stream = device.stream();
    const Guarded order(stream, bytes_of(c.pos_to_token()));
    quant::FusedChannelCastOptions options{options_of(c)};
    if (c.rows >= 0) options.pos_to_token = order.view(i32, {c.rows}, {1});
    return check(
        device, c, false,
        [&](const Stream& s, const Input& x, const TensorView& data, const TensorView& sf) {
            if (c.type == e4m3)
                quant::per_channel_cast_fused(s, x.view, data, sf, options);
            else
                quant::per_channel_cast_fused(s, x.view.data, data, sf, options);
        },
        [&](const Stream& s, const Input& x) {
            return c.type == e4m3 ? quant::per_channel_cast_fused(s, x.view, options)
                                  : quant::per_channel_cast_fused(s, x.view.data, options);
        });
}

}  // namespace tessera::test

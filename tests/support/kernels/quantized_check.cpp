#include <cmath>
#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <tessera/quant.hpp>

#include "tests/support/inputs.hpp"
#include "tests/support/kernels/checks.hpp"
#include "tests/support/kernels/scale_memory.hpp"
#include "tests/support/reference/formats.hpp"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Random scales in the reference's memory; packed bytes now and then 0, 1 or 254.
std::vector<std::uint32_t> scale_words_of(const QuantizedCase& c) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(scale_words(c.tokens, c.hidden, c.from)));
    const std::int64_t m = (c.tokens + c.from.block_rows - 1) / c.from.block_rows;
    const std::int64_t k = (c.hidden + c.from.block_columns - 1) / c.from.block_columns;
    const std::vector<float> scales = random_scales(m * k, c.from.round, c.seed + 1);
    const Bytes dice = random_bytes(static_cast<std::size_t>(m * k), c.seed + 2);
    for (std::int64_t i = 0; i < m * k; ++i) {
        std::uint32_t& word = words[static_cast<std::size_t>(scale_word(i / k, i % k, c.tokens, c.hidden, c.from))];
        std::uint32_t bits;
        std::memcpy(&bits, &scales[static_cast<std::size_t>(i)], 4);
        if (c.from.scales != reference::Scales::packed_ue8m0) {
            word = bits;
            continue;
        }
        const std::uint8_t die = dice[static_cast<std::size_t>(i)];
        const std::uint32_t byte = die == 0 ? 0 : die == 1 ? 1 : die == 2 ? 254 : bits >> 23;
        word |= byte << (8 * (i % k % 4));
    }
    return words;
}

/// The codes and scales of a case, on a device and for the reference.
struct Pair {
    reference::Quantized values;
    ScaleMemory layout;
    Bytes scale_bytes;
    Guarded codes, scales;
    quant::QuantizedView view;

    Pair(const Stream& stream, const QuantizedCase& c)
        : values{random_codes(c.from.format, c.tokens * c.hidden, c.seed), scale_words_of(c)},
          layout(c.tokens, c.hidden, c.from, c.scale_gap),
          scale_bytes(layout.laid_out(values.scales)),
          codes(stream, values.codes, c.shift),
          scales(stream, scale_bytes) {
        view.data = codes.view(element_of(c.from.format), {c.tokens, c.hidden}, {c.hidden, 1});
        view.sf = scales.view(layout.element, layout.extents, layout.strides);
        view.scale_layout = layout_of(c.from.scales);
        view.block_rows = c.from.block_rows;
        view.block_columns = c.from.block_columns;
    }

    std::string unchanged(const Stream& stream) const {
        if (codes.read(stream) != values.codes) return "the codes of the input have changed";
        return scales.read(stream) == scale_bytes ? "" : "the scales of the input have changed";
    }
};

template <class Case, class Body>
std::string on_device(const Device& device, const Case& c, Body&& body) {
    try {
        const std::string wrong = body(device.stream());
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

float value_at(const Bytes& bytes, Element type, std::size_t i) {
    std::uint16_t narrow;
    float wide;
    if (type == f32) return std::memcpy(&wide, &bytes[i * 4], 4), wide;
    return std::memcpy(&narrow, &bytes[i * 2], 2), reference::bf16_value(narrow);
}

std::string compare_values(const Bytes& got, const std::vector<float>& expected, const CastBackCase& c) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const float exact = expected[i], value = value_at(got, c.out, i);
        const float wanted =
            c.out == f32 || std::isnan(exact) ? exact : reference::bf16_value(reference::bf16_nearest(exact));
        const bool same = std::isnan(wanted) ? std::isnan(value) : std::memcmp(&value, &wanted, 4) == 0;
        if (!same)
            return fmt::format("value [{}, {}] is {}, the reference has {}", i / c.in.hidden, i % c.in.hidden, value,
                               wanted);
    }
    return "";
}

}  // namespace

std::string check_requantize(const Device& device, const RequantizeCase& c) {
    return on_device(device, c, [&](const Stream& stream) -> std::string {
        const std::int64_t tokens = c.in.tokens, hidden = c.in.hidden;
        const Pair x(stream, c.in);
        const reference::Quantized expected = reference::requantize(x.values, tokens, hidden, c.in.from, c.rule);
        const ScaleMemory sf(tokens, hidden, c.rule, 0);
        const Guarded codes(stream, static_cast<std::int64_t>(expected.codes.size()));
        const Guarded scales(stream, sf.bytes());
        const quant::CastOptions options{element_of(c.rule.format), c.rule.block_columns, layout_of(c.rule.scales),
                                         c.rule.round};
        quant::per_token_cast(stream, x.view, codes.view(element_of(c.rule.format), {tokens, hidden}, {hidden, 1}),
                              scales.view(sf.element, sf.extents, sf.strides), options);
        stream.synchronize();
        std::string wrong =
            compare_codes(codes.read(stream), expected.codes, hidden * reference::bits_of(c.rule.format) / 8);
        if (wrong.empty()) wrong = compare_scales(scales.read(stream), sf.laid_out(expected.scales));
        if (wrong.empty()) wrong = x.unchanged(stream);
        if (!wrong.empty()) return wrong;
        return check_returned(stream, quant::per_token_cast(stream, x.view, options), expected, tokens, hidden, c.rule);
    });
}

std::string check_cast_back(const Device& device, const CastBackCase& c) {
    return on_device(device, c, [&](const Stream& stream) -> std::string {
        const std::int64_t tokens = c.in.tokens, hidden = c.in.hidden, bytes = bits_of(c.out) / 8;
        const Pair x(stream, c.in);
        const std::vector<float> expected = reference::cast_back(x.values, tokens, hidden, c.in.from);
        const Guarded out(stream, tokens * hidden * bytes, c.shift * bytes);
        quant::cast_back(stream, x.view, out.view(c.out, {tokens, hidden}, {hidden, 1}));
        stream.synchronize();
        std::string wrong = compare_values(out.read(stream), expected, c);
        if (wrong.empty()) wrong = x.unchanged(stream);
        if (!wrong.empty()) return wrong;
        const Tensor returned = quant::cast_back(stream, x.view, c.out);
        if (returned.element() != c.out || !(returned.extents() == Shape{tokens, hidden}))
            return "the returned values have another type or other extents";
        wrong =
            compare_values(memory_of(stream, returned, expected.size() * static_cast<std::size_t>(bytes)), expected, c);
        return wrong.empty() ? "" : "returned: " + wrong;
    });
}

}  // namespace tessera::test

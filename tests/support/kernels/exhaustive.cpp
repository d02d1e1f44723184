#include "tests/support/kernels/exhaustive.hpp"

#include <cmath>
#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <limits>
#include <tessera/quant.hpp>

#include "tests/support/kernels/scale_memory.hpp"
#include "tests/support/reference/formats.hpp"

namespace tessera::test {
namespace {

using reference::Format;
using reference::QuantizeRule;
using reference::Scales;
using Bytes = std::vector<std::uint8_t>;
using Codes = std::vector<std::uint16_t>;

template <class Body>
std::string guarded(Body&& body) {
    try {
        return body();
    } catch (const std::exception& error) {
        return error.what();
    }
}

std::vector<float> cast_back(const Stream& stream, Format format, const Bytes& codes, std::int64_t rows,
                             std::int64_t columns, const TensorView& sf, quant::ScaleLayout layout, Element out) {
    const Tensor data = Tensor::from_host(stream, u8, {static_cast<std::int64_t>(codes.size())}, codes.data());
    const TensorView view = TensorView::of(stream.device(), data.data(), element_of(format), {rows, columns});
    const Tensor values = quant::cast_back(stream, {view, sf, layout, 1, columns}, out);
    const Bytes bytes = memory_of(stream, values, static_cast<std::size_t>(values.bytes()));
    std::vector<float> result(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < result.size(); ++i) {
        std::uint16_t narrow;
        if (out == f32) std::memcpy(&result[i], &bytes[i * 4], 4);
        if (out == bf16) std::memcpy(&narrow, &bytes[i * 2], 2), result[i] = reference::bf16_value(narrow);
    }
    return result;
}

bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, 4) == 0; }

/// Codes of one row of FP32 values cast with a scale of 1: the row's largest value is the format's.
Codes cast_row(const Stream& stream, const std::vector<float>& values, Format format, bool round_subnormals) {
    const auto n = static_cast<std::int64_t>(values.size());
    const Tensor x = Tensor::from_host(stream, f32, {1, n}, values.data());
    quant::CastOptions options{element_of(format), n};
    options.round_subnormals = round_subnormals;
    const quant::Quantized q = quant::per_token_cast(stream, static_cast<const TensorView&>(x), options);
    return reference::unpacked(format, memory_of(stream, q.data, static_cast<std::size_t>(q.data.bytes())));
}

/// A value and the code that it must get.
struct Pair {
    float value;
    unsigned code;
};

void add_both_signs(std::vector<Pair>& pairs, Format format, float value, unsigned code) {
    pairs.push_back({value, code});
    pairs.push_back({-value, code | 1u << (reference::bits_of(format) - 1)});
}

/// Around every midpoint; `quirk`: codes below 2⁻¹⁴ by E5M6's own rule.
std::vector<Pair> around_midpoints(Format format, bool quirk) {
    std::vector<Pair> pairs;
    for (unsigned code = 0; code <= reference::largest_code_of(format); ++code) {
        const double here = reference::value_of(format, code);
        add_both_signs(pairs, format, static_cast<float>(here), code);
        if (code == reference::largest_code_of(format)) break;
        const auto middle = static_cast<float>((here + reference::value_of(format, code + 1)) / 2);
        for (const auto& [value, nearest] :
             {Pair{std::nextafter(middle, 0.0f), code}, Pair{middle, code % 2 == 0 ? code : code + 1},
              Pair{std::nextafter(middle, 1e9f), code + 1}}) {
            const bool own_rule = quirk && value < 0x1p-14f;
            add_both_signs(pairs, format, value, own_rule ? reference::code_of(format, value) : nearest);
        }
    }
    return pairs;
}

/// Casts matrices and compares all with the reference.
std::string check_matrix(const Stream& stream, const void* values, Element type, std::int64_t rows,
                         std::int64_t columns, const QuantizeRule& rule) {
    const reference::Quantized expected = reference::quantize({values, type == bf16, rows, columns, columns}, rule);
    const Tensor x = Tensor::from_host(stream, type, {rows, columns}, values);
    const quant::CastOptions options{element_of(rule.format), rule.block_columns, layout_of(rule.scales), rule.round};
    return check_returned(stream, quant::per_token_cast(stream, static_cast<const TensorView&>(x), options), expected,
                          rows, columns, rule);
}

}  // namespace

std::string check_every_code(const Device& device, Format format) {
    return guarded([&]() -> std::string {
        const Stream stream = device.stream();
        const auto count = static_cast<std::size_t>(1) << reference::bits_of(format);
        // Every row begins one code later, so that each code comes to every place of a pack.
        const auto pack = static_cast<std::size_t>(reference::pack_of(format)), rows = pack;
        Codes codes;
        for (std::size_t i = 0; i < rows * count; ++i)
            codes.push_back(static_cast<std::uint16_t>((i % count + i / count) % count));
        const std::vector<float> ones(rows, 1.0f);
        const auto m = static_cast<std::int64_t>(rows), n = static_cast<std::int64_t>(count);
        const Tensor sf = Tensor::from_host(stream, f32, {m, 1}, ones.data());
        for (const Element out : {f32, bf16}) {
            const auto values = cast_back(stream, format, reference::packed(format, codes), m, n, sf,
                                          quant::ScaleLayout::row_major, out);
            for (std::size_t i = 0; i < codes.size(); ++i) {
                const auto expected = static_cast<float>(reference::value_of(format, codes[i]));
                if (!same(values[i], expected))
                    return fmt::format("code {:#x} became {} instead of {}", codes[i], values[i], expected);
            }
        }
        return "";
    });
}

std::string check_scale_bytes(const Device& device) {
    return guarded([&]() -> std::string {
        const Stream stream = device.stream();
        const std::vector<std::uint8_t> bytes = {0, 1, 127, 254, 255};
        const float factors[] = {0.0f, 0x1p-126f, 1.0f, 0x1p127f, std::numeric_limits<float>::infinity()};
        Codes codes;  // a row for each byte: all 16 in even places, all in odd ones
        for (std::size_t row = 0; row < bytes.size(); ++row)
            for (unsigned i = 0; i < 32; ++i) codes.push_back(static_cast<std::uint16_t>((i / 2 + (i % 2) * 5) % 16));
        std::vector<std::uint32_t> words(8, 0);
        for (std::size_t row = 0; row < bytes.size(); ++row) words[row] = bytes[row];
        const Tensor memory = Tensor::from_host(stream, i32, {8}, words.data());
        const TensorView sf = TensorView::of(device, memory.data(), i32, {5, 1}, {1, 8});
        const auto values = cast_back(stream, Format::e2m1, reference::packed(Format::e2m1, codes), 5, 32, sf,
                                      quant::ScaleLayout::packed_ue8m0, f32);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            const float expected = static_cast<float>(reference::value_of(Format::e2m1, codes[i])) * factors[i / 32];
            if (!same(values[i], expected))
                return fmt::format("code {:#x} under the byte {} became {} instead of {}", codes[i], bytes[i / 32],
                                   values[i], expected);
        }
        return "";
    });
}

std::string check_midpoints(const Device& device, Format format, bool round_subnormals) {
    return guarded([&]() -> std::string {
        const Stream stream = device.stream();
        const std::vector<Pair> pairs = around_midpoints(format, format == Format::e5m6 && !round_subnormals);
        constexpr std::size_t row = 504;  // beside the largest value, which makes the scale 1
        for (std::size_t first = 0; first < pairs.size(); first += row) {
            std::vector<float> values(row + 8, 0.0f);
            values.back() = static_cast<float>(reference::largest_of(format));
            for (std::size_t i = 0; i < row && first + i < pairs.size(); ++i) values[i] = pairs[first + i].value;
            const Codes codes = cast_row(stream, values, format, round_subnormals);
            for (std::size_t i = 0; i < row && first + i < pairs.size(); ++i)
                if (codes[i] != pairs[first + i].code)
                    return fmt::format("{:a} became code {:#x} instead of {:#x}", values[i], codes[i],
                                       pairs[first + i].code);
        }
        return "";
    });
}

std::string check_every_bf16(const Device& device, Format format) {
    return guarded([&]() -> std::string {
        const Stream stream = device.stream();
        const std::uint16_t largest = reference::bf16_nearest(static_cast<float>(reference::largest_of(format)));
        const std::int64_t columns = format == Format::e5m6 ? 256 : 32;
        std::vector<std::uint16_t> values;
        for (unsigned bits = 0; bits < 0x10000; ++bits) {
            if (values.size() % static_cast<std::size_t>(columns) == 0) values.push_back(largest);
            if ((bits & 0x7FFF) <= largest) values.push_back(static_cast<std::uint16_t>(bits));
        }
        while (values.size() % static_cast<std::size_t>(columns) != 0) values.push_back(0);
        const auto rows = static_cast<std::int64_t>(values.size()) / columns;
        for (const bool round : {false, true}) {
            const std::string wrong = check_matrix(stream, values.data(), bf16, rows, columns,
                                                   {1, columns, Scales::row_major, round, format});
            if (!wrong.empty()) return wrong;
        }
        return "";
    });
}

std::string check_every_exponent(const Device& device, Format format) {
    return guarded([&]() -> std::string {
        const Stream stream = device.stream();
        std::vector<float> maxima;
        for (int exponent = -149; exponent < 128; ++exponent)
            for (const double base : {1.0, 1.5, reference::largest_of(format) / 256}) {
                const auto x = static_cast<float>(std::ldexp(base, exponent));
                for (const float v : {x, std::nextafter(x, 0.0f), std::nextafter(x, HUGE_VALF)})
                    if (std::isfinite(v)) maxima.push_back(v);
            }
        constexpr std::int64_t columns = 16;
        std::vector<float> values;
        for (std::size_t i = 0; i < maxima.size(); ++i)
            for (std::size_t h = 0; h < columns; ++h)
                values.push_back((h % 2 == 0 ? 1.0f : -1.0f) * (h == i % columns ? maxima[i] : maxima[i] / 3));
        const auto rows = static_cast<std::int64_t>(maxima.size());
        for (const Scales layout : {Scales::row_major, Scales::column_major, Scales::packed_ue8m0})
            for (const bool round : {false, true}) {
                if (layout == Scales::packed_ue8m0 && !round) continue;
                const std::string wrong =
                    check_matrix(stream, values.data(), f32, rows, columns, {1, columns, layout, round, format});
                if (!wrong.empty()) return wrong;
            }
        return "";
    });
}

}  // namespace tessera::test

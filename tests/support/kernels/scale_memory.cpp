#include "tests/support/kernels/scale_memory.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Element element_of(reference::Format format) {
    switch (format) {
        case reference::Format::e4m3: return e4m3;
        case reference::Format::e2m1: return e2m1;
        default: return e5m6;
    }
}

quant::ScaleLayout layout_of(reference::Scales scales) {
    switch (scales) {
        case reference::Scales::row_major: return quant::ScaleLayout::row_major;
        case reference::Scales::column_major: return quant::ScaleLayout::column_major;
        default: return quant::ScaleLayout::packed_ue8m0;
    }
}

ScaleMemory::ScaleMemory(std::int64_t rows, std::int64_t columns, const reference::QuantizeRule& rule, std::int64_t gap)
    : element(f32), gap_(gap) {
    const std::int64_t m = up(rows, rule.block_rows), k = up(columns, rule.block_columns);
    if (rule.scales == reference::Scales::row_major) {
        extents = {m, k}, strides = {k + gap, 1};
        run_ = k, runs_ = m;
        return;
    }
    const bool packed = rule.scales == reference::Scales::packed_ue8m0;
    run_ = up(m, 4) * 4, runs_ = packed ? up(k, 4) : k;
    if (packed) element = i32;
    extents = {m, runs_}, strides = {1, run_ + gap};
}

Bytes ScaleMemory::laid_out(const std::vector<std::uint32_t>& words) const {
    Bytes memory(static_cast<std::size_t>(bytes()), sentinel);
    for (std::int64_t i = 0; i < runs_ * run_; ++i)
        std::memcpy(&memory[static_cast<std::size_t>((i / run_ * (run_ + gap_) + i % run_) * 4)],
                    &words[static_cast<std::size_t>(i)], 4);
    return memory;
}

std::string compare_scales(const Bytes& got, const Bytes& expected) {
    for (std::size_t i = 0; i < expected.size(); i += 4) {
        std::uint32_t a, b;
        std::memcpy(&a, &got[i], 4), std::memcpy(&b, &expected[i], 4);
        if (a != b) return fmt::format("word {} of the scales is {:#010x}, the reference has {:#010x}", i / 4, a, b);
    }
    return "";
}

std::string compare_codes(const Bytes& got, const Bytes& expected, std::int64_t row_bytes) {
    const auto row = static_cast<std::size_t>(row_bytes);
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (got[i] != expected[i])
            return fmt::format("byte {} of row {} of the codes is {:#04x}, the reference has {:#04x}", i % row, i / row,
                               got[i], expected[i]);
    return "";
}

Bytes memory_of(const Stream& stream, const TensorView& view, std::size_t bytes) {
    const auto count = static_cast<std::int64_t>(bytes);
    Bytes out(bytes);
    if (bytes > 0)
        copy(stream, TensorView::of(Device::host(), out.data(), u8, {count}),
             TensorView::raw(view.device, view.data, count, u8));
    return out;
}

std::string check_returned(const Stream& stream, const quant::Quantized& q, const reference::Quantized& expected,
                           std::int64_t rows, std::int64_t columns, const reference::QuantizeRule& rule) {
    const ScaleMemory sf(rows, columns, rule, 0);
    if (q.data.element() != element_of(rule.format) || !(q.data.extents() == Shape{rows, columns}))
        return "the returned codes have another type or other extents";
    if (q.sf.element() != sf.element || !(q.sf.extents() == sf.extents))
        return "the returned scales have another type or other extents";
    if (q.sf.count() > 0 && !(q.sf.strides() == sf.strides)) return "the returned scales have other strides";
    std::string wrong = compare_codes(memory_of(stream, q.data, expected.codes.size()), expected.codes,
                                      columns * bits_of(rule.format) / 8);
    const Bytes scales = sf.laid_out(expected.scales);
    if (wrong.empty()) wrong = compare_scales(memory_of(stream, q.sf, scales.size()), scales);
    return wrong.empty() ? "" : "returned: " + wrong;
}

}  // namespace tessera::test

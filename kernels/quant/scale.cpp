#include "kernels/quant/scale.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::quant {

ScaleOutput::ScaleOutput(Kernel& k, ScaleLayout layout, const Index& blocks, std::int64_t groups)
    : layout_(layout), blocks_(blocks), groups_(groups) {
    if (layout == ScaleLayout::row_major) {
        numbers_ = k.output<f32>("sf", {blocks, groups}, {.align = 4});
        return;
    }
    const Dim pitch = k.dim("sf_pitch", multiple_of(4));
    if (layout == ScaleLayout::column_major)
        numbers_ = k.output<f32>("sf", {rows(), groups}, {.align = 16, .strides = {1, pitch}});
    else
        bytes_ = k.output<ue8m0>("sf", {rows(), this->groups()},
                                 {.align = 16, .strides = {4, AxisStride(pitch * 4).packed(4, 1)}});
}

void ScaleOutput::store(const Scales<2>& scales, const std::int64_t (&tile)[2], const Index& m, const Index& g) const {
    if (layout_ == ScaleLayout::row_major) return tessera::store(numbers_.block(tile, {m, g}), scales.sf);
    // In 32 bits: what the tile covers of the blocks fits, where their number might not.
    auto used = cast<i32>(coordinates(tile, axis<0>)) < cast<i32>(min(blocks_ - m * tile[0], Index(tile[0])));
    if (layout_ == ScaleLayout::column_major)
        return tessera::store(numbers_.block(tile, {m, g}), select(used, scales.sf, 0.0f));
    if (groups() != groups_) used = used & (coordinates(tile, axis<1>) + g * tile[1] < groups_);
    const auto exponent = cast<u8>(select(used, scales.exponent, 0u));
    tessera::store(bytes_.block(tile, {m, g}), bitcast<ue8m0>(exponent));
}

void ScaleOutput::store_rows(const Scales<2>& scales, const Value<i64, 1>& rows) const {
    const std::int64_t tile[2] = {rows.extent(0), groups()};
    if (layout_ == ScaleLayout::row_major) return tessera::store(numbers_.window(tile, {rows, 0}), scales.sf);
    const auto used = rows.unsqueeze(axis<1>) < blocks_;
    if (layout_ == ScaleLayout::column_major)
        return tessera::store(numbers_.window(tile, {rows, 0}), select(used, scales.sf, 0.0f));
    auto exponent = select(used, scales.exponent, 0u);
    if (groups() != groups_) exponent = select(coordinates(tile, axis<1>) < groups_, exponent, 0u);
    tessera::store(bytes_.window(tile, {rows, 0}), bitcast<ue8m0>(cast<u8>(exponent)));
}

void ScaleOutput::store_row(const Scales<2>& scales, const Index& m) const {
    const std::int64_t padding = groups() - groups_;
    if (padding == 0) return store(scales, {1, groups_}, m, 0);
    const auto row = full({1}, m);  // two stores of different places, said by indices: nothing orders them
    const auto exponent = cast<u8>(select(m < blocks_, scales.exponent, 0u));
    tessera::store(bytes_.window({1, groups_}, {row, 0}), bitcast<ue8m0>(exponent));
    tessera::store(bytes_.window({1, padding}, {row, groups_}), bitcast<ue8m0>(full({1, padding}, Value<u8, 0>(0))));
}

namespace {

/// The memory of the scales with their padding: column-major ones lie in it a column a row.
TensorSpec scale_memory(const ScaleShape& shape) {
    switch (shape.layout) {
        case ScaleLayout::row_major: return {f32, {shape.blocks, shape.groups}};
        case ScaleLayout::column_major: return {f32, {shape.groups, shape.padded()}};
        case ScaleLayout::packed_ue8m0: return {i32, {ceil_div(shape.groups, 4), shape.padded()}};
    }
    return {};
}

Tensor scales_in(Tensor memory, const ScaleShape& shape) {
    if (shape.layout == ScaleLayout::row_major) return memory;
    const TensorView view = TensorView::of(memory.device(), memory.data(), memory.element(),
                                           {shape.blocks, memory.extents()[0]}, {1, shape.padded()});
    return Tensor::adopt(view, memory.owner());
}

}  // namespace

Tensor empty_scales(const Stream& stream, const ScaleShape& shape) {
    const auto& [element, extents] = scale_memory(shape);
    return scales_in(Tensor::empty(stream, element, extents), shape);
}

Quantized empty_quantized(const Stream& stream, Element format, const Shape& extents, const ScaleShape& shape) {
    auto [data, scales] = Tensor::empty_together(stream, {{format, extents}, scale_memory(shape)});
    return {std::move(data), scales_in(std::move(scales), shape)};
}

void check_scales(const char* function, const TensorView& sf, const ScaleShape& shape) {
    const bool rows = shape.layout == ScaleLayout::row_major;
    const bool packed = shape.layout == ScaleLayout::packed_ue8m0;
    const Element type = packed ? i32 : f32;
    const Shape extents{shape.blocks, packed ? ceil_div(shape.groups, 4) : shape.groups};
    if (sf.element != type || !(sf.extents == extents))
        throw UsageError(fmt::format("{}: sf is {} {}, but these options need {} {}", function, name_of(sf.element),
                                     text_of(sf.extents), name_of(type), text_of(extents)));
    if (shape.blocks == 0) return;
    const std::int64_t pitch = sf.strides[1];
    const bool dense = sf.strides[0] == extents[1] || shape.blocks == 1;
    if (rows && !((pitch == 1 || extents[1] == 1) && dense))
        throw UsageError(fmt::format("{}: sf has strides {}, but row-major scales are dense: ({}, 1)", function,
                                     text_of(sf.strides), extents[1]));
    if (rows) return;
    const bool one_row = shape.blocks == 1 || sf.strides[0] == 1;
    const bool wide = extents[1] == 1 || (pitch >= shape.padded() && pitch % 4 == 0);
    if (!one_row || !wide)
        throw UsageError(fmt::format(
            "{}: sf has strides {}, but these scales are column-major: (1, p) with p a multiple of 4 and at least {}",
            function, text_of(sf.strides), shape.padded()));
    if (reinterpret_cast<std::uintptr_t>(sf.data) % 16 != 0)
        throw UsageError(fmt::format(
            "{}: sf begins at an address that is no multiple of 16; column-major scales are aligned to 16 bytes",
            function));
}

FittedView scales_for_kernel(const TensorView& sf, const ScaleShape& shape) {
    FittedView scales(sf);
    if (shape.layout == ScaleLayout::row_major) return scales;
    TensorView& view = scales.change();
    const std::int64_t columns = sf.extents[1];
    const std::int64_t pitch = columns == 1 ? shape.padded() : sf.strides[1];
    if (shape.layout == ScaleLayout::column_major) {
        view.extents[0] = shape.padded();
        view.strides[0] = 1, view.strides[1] = pitch;
    } else {
        view.element = ue8m0;
        view.extents = {((columns - 1) * pitch + shape.padded()) * 4}, view.strides = {1};
    }
    return scales;
}

}  // namespace tessera::quant

#include "kernels/quant/scale_input.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <numeric>

#include "dsl/base/error.hpp"
#include "kernels/check.hpp"
#include "kernels/quant/cast_input.hpp"

namespace tessera::quant {

namespace {

/// A block that reaches past every row or column is as good as a huge power of two.
std::int64_t reach(std::int64_t block, std::int64_t extent) { return block >= extent ? std::int64_t{1} << 40 : block; }

}  // namespace

ScaledTile ScaledTile::choose(std::int64_t hidden, std::int64_t block_rows, std::int64_t elements) {
    const std::int64_t cols = std::max<std::int64_t>(std::gcd(hidden, elements / 4), 128);
    const std::int64_t rows = elements / cols;
    return {block_rows > 1 ? std::min(rows, block_rows & -block_rows) : rows, cols};
}

ScaleInput::ScaleInput(Kernel& k, ScaleLayout layout, const Index& tokens, std::int64_t hidden, std::int64_t block_rows,
                       std::int64_t block_columns)
    : layout_(layout), block_rows_(block_rows), block_columns_(reach(block_columns, hidden)) {
    const Index blocks = ceil_div(tokens, block_rows);
    const std::int64_t groups = ceil_div(hidden, block_columns);
    const Dim pitch = k.dim("x_sf_pitch");
    switch (layout) {
        case ScaleLayout::row_major:
            numbers_ = k.input<f32>("x_sf", {blocks, groups}, {.align = 4, .strides = {pitch, 1}});
            break;
        case ScaleLayout::column_major:
            numbers_ = k.input<f32>("x_sf", {blocks, groups}, {.align = 4, .strides = {1, pitch}});
            break;
        case ScaleLayout::packed_ue8m0:
            bytes_ = k.input<ue8m0>("x_sf", {blocks, groups},
                                    {.align = 4, .strides = {4, AxisStride(pitch * 4).packed(4, 1)}});
            break;
    }
}

template <class Columns>
Value<f32, 2> ScaleInput::window(std::int64_t rows, std::int64_t columns, const Index& row,
                                 const Columns& column) const {
    if (layout_ != ScaleLayout::packed_ue8m0) return tessera::load(numbers_.window({rows, columns}, {row, column}));
    const auto exponent = bitcast<u8>(tessera::load(bytes_.window({rows, columns}, {row, column})));
    return bitcast<f32>(cast<u32>(exponent) << 23u);
}

Value<f32, 2> ScaleInput::load(const ScaledTile& tile, const Index& m, const Index& n) const {
    const std::int64_t rows = block_rows_ == 1 ? tile.rows : 1;
    const Index row = block_rows_ == 1 ? m * tile.rows : m * tile.rows / block_rows_;
    const std::int64_t shared = shared_columns(tile), columns = tile.cols / shared;
    if (columns == 1) return window(rows, columns, row, n * tile.cols / block_columns_);
    if (shared == block_columns_) return window(rows, columns, row, n * columns);
    return window(rows, columns, row, (n * columns + coordinates({columns}, axis<0>)) * shared / block_columns_);
}

void check_quantized(const char* function, const Stream& stream, const QuantizedView& x) {
    const TensorView& q = x.data;
    if (q.element != e4m3 && q.element != e2m1 && q.element != e5m6)
        throw UsageError(
            fmt::format("{}: x is {}; quantized data is e4m3, e2m1 or e5m6", function, name_of(q.element)));
    if (q.rank() != 2 || q.extents[1] < 1 || !q.is_contiguous())
        throw UsageError(
            fmt::format("{}: x has extents {} and strides {}; quantized data is a dense matrix (tokens, channels)",
                        function, text_of(q.extents), text_of(q.strides)));
    check_whole_bytes(function, q.element, q.extents[1]);
    if (reinterpret_cast<std::uintptr_t>(q.data) % static_cast<unsigned>(least_align(q.element)) != 0)
        throw UsageError(fmt::format("{}: x begins at an address that is no multiple of {}; {} is moved in words",
                                     function, least_align(q.element), name_of(q.element)));
    constexpr std::int64_t most_side = std::int64_t{1} << 40;  // extents may be added to it
    if (std::min(x.block_rows, x.block_columns) < 1 || std::max(x.block_rows, x.block_columns) > most_side)
        throw UsageError(fmt::format("{}: x has scale blocks of {} × {}; each side is from 1 to 2^40", function,
                                     x.block_rows, x.block_columns));
    const bool packed = x.scale_layout == ScaleLayout::packed_ue8m0;
    const std::int64_t groups = ceil_div(q.extents[1], x.block_columns);
    const Shape extents{ceil_div(q.extents[0], x.block_rows), packed ? ceil_div(groups, 4) : groups};
    const Element type = packed ? i32 : f32;
    if (x.sf.element != type || !(x.sf.extents == extents))
        throw UsageError(fmt::format("{}: x_sf is {} {}, but {} in blocks of {} × {} need {} {}", function,
                                     name_of(x.sf.element), text_of(x.sf.extents), text_of(q.extents), x.block_rows,
                                     x.block_columns, name_of(type), text_of(extents)));
    const int inner = x.scale_layout == ScaleLayout::row_major ? 1 : 0;
    if (extents[inner] > 1 && x.sf.strides[inner] != 1)
        throw UsageError(fmt::format("{}: x_sf has strides {}, but {} scales have stride 1 along axis {}", function,
                                     text_of(x.sf.strides), inner ? "row-major" : "column-major", inner));
    if (extents[1 - inner] > 1 && x.sf.strides[1 - inner] < extents[inner])
        throw UsageError(
            fmt::format("{}: x_sf has strides {}, so that its lines overlap", function, text_of(x.sf.strides)));
    check_device(function, "x", stream, x.data);
    check_device(function, "x_sf", stream, x.sf);
}

ScaleArgument scale_argument(const QuantizedView& x) {
    const int inner = x.scale_layout == ScaleLayout::row_major ? 1 : 0;
    TensorView view = x.sf;
    std::int64_t pitch = view.strides[1 - inner];
    if (view.extents[1 - inner] == 1) pitch = view.extents[inner];  // one line has no distance to the next
    view.strides[inner] = 1;
    view.strides[1 - inner] = pitch;
    const bool packed = x.scale_layout == ScaleLayout::packed_ue8m0;
    if (packed)
        view = TensorView::raw(view.device, view.data, ((view.extents[1] - 1) * pitch + view.extents[0]) * 4, ue8m0);
    return {view, packed, pitch};
}

}  // namespace tessera::quant

#include "kernels/quant/cast_input.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::quant {

void check_input(const char* function, const Stream& stream, const TensorView& x) {
    if (x.element != bf16 && x.element != f32)
        throw UsageError(fmt::format("{}: x is {}; this cast takes bf16 or f32", function, name_of(x.element)));
    if (x.rank() != 2)
        throw UsageError(fmt::format("{}: x has rank {} (extents {}); this cast takes a matrix (tokens, channels)",
                                     function, x.rank(), text_of(x.extents)));
    if (x.extents[1] < 1)
        throw UsageError(
            fmt::format("{}: x has extents {}; a row has at least one channel", function, text_of(x.extents)));
    if ((x.extents[1] > 1 && x.strides[1] != 1) || (x.extents[0] > 1 && x.strides[0] < 0))
        throw UsageError(fmt::format(
            "{}: x has strides {}; rows must be dense (inner stride 1) and the row stride at least 0; copy it first",
            function, text_of(x.strides)));
    if (!x.device.shares_memory(stream.device()))
        throw UsageError(fmt::format("{}: x lies on {}, but the stream is of {}; copy it there first", function,
                                     x.device.name(), stream.device().name()));
}

void check_codes(const char* function, const TensorView& data, const TensorView& x) {
    if (data.element != e4m3 || !(data.extents == x.extents) || !data.is_contiguous())
        throw UsageError(fmt::format("{}: data is {} {} with strides {}, but must be e4m3 {} and dense", function,
                                     name_of(data.element), text_of(data.extents), text_of(data.strides),
                                     text_of(x.extents)));
}

void check_format(const char* function, Element format) {
    if (format != e4m3)
        throw UsageError(fmt::format("{}: format {} has no kernel; use e4m3", function, name_of(format)));
}

bool rows_aligned(const TensorView& x, const TensorView& data) {
    const auto address = [](const TensorView& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
    const std::int64_t per_vector = 128 / bits_of(x.element);
    return address(x) % 16 == 0 && address(data) % 16 == 0 && (x.extents[0] == 1 || x.strides[0] % per_vector == 0);
}

void launch_cast(const CompiledKernel& kernel, const Stream& stream, const TensorView& x, const TensorView& data,
                 const TensorView& sf, const ScaleShape& shape) {
    // One row has no stride of its own; the kernel still checks its facts about it.
    TensorView rows = x;
    if (x.extents[0] == 1) rows.strides[0] = align_up(x.extents[1], 8);
    rows.strides[1] = 1;
    const TensorView scales = scales_for_kernel(sf, shape);
    if (shape.layout == ScaleLayout::packed_ue8m0) {
        const std::int64_t pitch = sf.extents[1] == 1 ? shape.padded() : sf.strides[1];
        kernel.launch(stream, {rows, data, scales}, {Scalar("sf_pitch", pitch)});
    } else {
        kernel.launch(stream, {rows, data, scales});
    }
}

}  // namespace tessera::quant

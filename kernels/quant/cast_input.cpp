#include "kernels/quant/cast_input.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/check.hpp"
#include "kernels/quant/scale_input.hpp"

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
    check_device(function, "x", stream, x);
}

void check_codes(const char* function, const TensorView& data, Element format, const TensorView& x) {
    if (data.element != format || !(data.extents == x.extents) || !data.is_contiguous())
        throw UsageError(fmt::format("{}: data is {} {} with strides {}, but must be {} {} and dense", function,
                                     name_of(data.element), text_of(data.extents), text_of(data.strides),
                                     name_of(format), text_of(x.extents)));
    if ((reinterpret_cast<std::uintptr_t>(data.data) & static_cast<unsigned>(least_align(format) - 1)) != 0)
        throw UsageError(fmt::format("{}: data begins at an address that is no multiple of {}; {} is moved in words",
                                     function, least_align(format), name_of(format)));
}

void check_whole_bytes(const char* function, Element format, std::int64_t hidden) {
    const int pack = packed_elements_of(format);
    if (hidden % pack != 0)
        throw UsageError(
            fmt::format("{}: rows of {} channels; {} shares bytes among {} values, so rows have a multiple "
                        "of {} channels; pad them",
                        function, hidden, name_of(format), pack, pack));
}

bool rows_aligned(const TensorView& x, const TensorView& data) {
    const auto fits = [](const TensorView& t) {
        return (reinterpret_cast<std::uintptr_t>(t.data) & static_cast<unsigned>(vector_align(t.element) - 1)) == 0;
    };
    return fits(x) && fits(data) && (x.extents[0] == 1 || (x.strides[0] & (vector_elements(x.element) - 1)) == 0);
}

namespace {

/// One row has no stride of its own; the kernel still checks its facts about it.
FittedView with_row_stride(const TensorView& x) {
    FittedView rows(x);
    if (x.extents[0] == 1) rows.change().strides[0] = align_up(x.extents[1], 32);
    if (x.strides[1] != 1) rows.change().strides[1] = 1;
    return rows;
}

std::int64_t scale_pitch(const TensorView& sf, const ScaleShape& shape) {
    return sf.extents[1] == 1 ? shape.padded() : sf.strides[1];
}

}  // namespace

void launch_cast(const CompiledKernel& kernel, const Stream& stream, const TensorView& x, const TensorView* data,
                 const TensorView& sf, const ScaleShape& shape) {
    const Scalar pitch("sf_pitch", scale_pitch(sf, shape));
    const std::span<const Scalar> given(&pitch, shape.layout == ScaleLayout::packed_ue8m0 ? 1u : 0u);
    const FittedView rows = with_row_stride(x), scales = scales_for_kernel(sf, shape);
    const TensorRef tensors[] = {rows, data ? TensorRef(*data) : TensorRef(scales), scales};
    kernel.launch(stream, std::span<const TensorRef>(tensors, data ? 3 : 2), given);
}

void launch_scaled(const CompiledKernel& kernel, const Stream& stream, const QuantizedView& x, const TensorView& out,
                   const TensorView* sf, const ScaleShape* shape) {
    const ScaleArgument from = scale_argument(x);
    const FittedView rows = with_row_stride(x.data);
    Scalar scalars[2] = {Scalar("x_sf_pitch", from.pitch), Scalar("sf_pitch", std::int64_t{0})};
    std::size_t given = from.packed ? 1 : 0;
    const Scalar* const first = from.packed ? scalars : scalars + 1;
    if (!sf) {
        const TensorRef three[] = {rows, out, from.view};
        return kernel.launch(stream, three, std::span<const Scalar>(first, given));
    }
    const FittedView scales = scales_for_kernel(*sf, *shape);
    if (shape->layout == ScaleLayout::packed_ue8m0) {
        scalars[1] = Scalar("sf_pitch", scale_pitch(*sf, *shape));
        ++given;
    }
    const TensorRef four[] = {rows, out, from.view, scales};
    kernel.launch(stream, four, std::span<const Scalar>(first, given));
}

}  // namespace tessera::quant

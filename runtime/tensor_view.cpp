#include "runtime/tensor_view.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dsl/base/error.hpp"

namespace tessera {

Shape dense_strides(const Shape& extents) {
    Shape strides = extents;
    std::uint64_t stride = 1;  // wraps where an empty tensor has huge extents
    for (int axis = extents.rank() - 1; axis >= 0; --axis) {
        strides[axis] = static_cast<std::int64_t>(stride);
        stride *= static_cast<std::uint64_t>(extents[axis]);
    }
    return strides;
}

namespace {

/// What does not fit into 2⁵⁶ bits is a mistake.
constexpr std::int64_t most_bits = std::int64_t{1} << 56;

/// a · b where both are at least 0, or something above most_bits.
std::int64_t bounded_product(std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? most_bits + 1 : product;
}

bool reaches_too_far(Element element, const Shape& extents, const Shape& strides) {
    std::int64_t count = bits_of(element), span = count;
    for (int axis = 0; axis < extents.rank(); ++axis) {
        const std::int64_t extent = extents[axis], stride = strides[axis];
        count = bounded_product(count, extent);
        if (count > most_bits) return true;
        if (extent == 1) continue;
        if (stride < -most_bits || stride > most_bits) return true;
        const std::int64_t reach = bounded_product(extent - 1, stride < 0 ? -stride : stride);
        span += std::min(bounded_product(reach, bits_of(element)), most_bits);
        if (reach > most_bits || span > most_bits) return true;
    }
    return false;
}

}  // namespace

std::string text_of(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }

TensorView TensorView::of(const Device& device, void* data, Element element, const Shape& extents) {
    return of(device, data, element, extents, dense_strides(extents));
}

TensorView TensorView::of(const Device& device, const void* data, Element element, const Shape& extents) {
    return of(device, data, element, extents, dense_strides(extents));
}

TensorView TensorView::of(const Device& device, void* data, Element element, const Shape& extents,
                          const Shape& strides) {
    for (std::int64_t extent : extents)
        if (extent < 0)
            throw UsageError(fmt::format("a tensor of extents {} cannot be: an extent is negative", text_of(extents)));
    if (strides.rank() != extents.rank())
        throw UsageError(
            fmt::format("a tensor of extents {} needs as many strides, got {}; give one stride an axis, "
                        "counted in elements",
                        text_of(extents), text_of(strides)));
    const bool empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
    if (!empty && reaches_too_far(element, extents, strides))
        throw UsageError(
            fmt::format("a {} tensor of extents {} and strides {} is larger than any memory; look at its "
                        "extents and strides",
                        name_of(element), text_of(extents), text_of(strides)));
    return TensorView{data, element, false, device, extents, strides};
}

TensorView TensorView::of(const Device& device, const void* data, Element element, const Shape& extents,
                          const Shape& strides) {
    TensorView view = of(device, const_cast<void*>(data), element, extents, strides);
    view.read_only = true;
    return view;
}

TensorView TensorView::raw(const Device& device, void* data, std::int64_t bytes, Element element) {
    if (bytes < 0 || bytes > most_bits / 8)
        throw UsageError(fmt::format("a view over {} bytes: no memory has so many; look at their number", bytes));
    return of(device, data, element, {bytes * 8 / bits_of(element)});
}

std::int64_t TensorView::bytes() const { return (count() * bits_of(element) + 7) / 8; }

std::int64_t TensorView::span_bytes() const {
    std::int64_t last = 0;
    for (int axis = 0; axis < rank(); ++axis) {
        if (extents[axis] == 0) return 0;
        last += (extents[axis] - 1) * (strides[axis] < 0 ? -strides[axis] : strides[axis]);
    }
    return ((last + 1) * bits_of(element) + 7) / 8;
}

bool TensorView::is_contiguous() const {
    std::int64_t stride = 1;
    for (int axis = rank() - 1; axis >= 0; --axis) {
        if (extents[axis] > 1 && strides[axis] != stride) return count() == 0;
        stride *= extents[axis];
    }
    return true;
}

TensorView TensorView::slice(int axis, std::int64_t begin, std::int64_t end) const {
    if (axis < 0 || axis >= rank())
        throw UsageError(fmt::format("slice of axis {}: the tensor has extents {}", axis, text_of(extents)));
    if (begin < 0 || end < begin || end > extents[axis])
        throw UsageError(fmt::format("slice [{}, {}) of axis {}: the axis has positions 0 to {} (extents {})", begin,
                                     end, axis, extents[axis], text_of(extents)));
    const std::int64_t bits = begin * strides[axis] * bits_of(element);
    if (bits % 8 != 0)
        throw UsageError(
            fmt::format("slice [{}, {}) of axis {} begins within a byte: {} has {} bits; begin at an even "
                        "position",
                        begin, end, axis, name_of(element), bits_of(element)));
    TensorView part = *this;
    part.data = static_cast<char*>(data) + bits / 8;
    part.extents[axis] = end - begin;
    return part;
}

}  // namespace tessera

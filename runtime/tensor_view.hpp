#pragma once

#include <cstdint>
#include <string>

#include "dsl/base/element.hpp"
#include "dsl/base/shape.hpp"
#include "runtime/device.hpp"

namespace tessera {

/// A tensor that somebody else owns: an address, what lies there, and on which device. Strides count elements. Made by
/// `of`; the order of the fields is that in which a launch reads them.
struct TensorView {
    void* data = nullptr;
    Element element = Element::f32;
    bool read_only = false;  // refused as an output
    Device device;
    Shape extents;
    Shape strides;

    /// Dense, row-major. Errors: UsageError for a negative extent, and for more than any memory holds (2^56 bits).
    static TensorView of(const Device& device, void* data, Element element, const Shape& extents);
    static TensorView of(const Device& device, const void* data, Element element, const Shape& extents);
    /// Errors: the same, and UsageError if there are not as many strides as extents.
    static TensorView of(const Device& device, void* data, Element element, const Shape& extents, const Shape& strides);
    static TensorView of(const Device& device, const void* data, Element element, const Shape& extents,
                         const Shape& strides);
    /// `bytes` bytes of packed data (scales in words) as one axis of elements.
    static TensorView raw(const Device& device, void* data, std::int64_t bytes, Element element);

    int rank() const { return extents.rank(); }
    std::int64_t count() const { return extents.count(); }
    /// Bytes of the elements themselves.
    std::int64_t bytes() const;
    /// Bytes from the first to the end of the last element: more than bytes() where there are gaps. 0 without elements.
    std::int64_t span_bytes() const;
    /// Dense and row-major; strides of axes with extent 1 do not matter.
    bool is_contiguous() const;
    /// Positions [begin, end) along `axis`. Errors: UsageError outside of the axis, or within a byte.
    TensorView slice(int axis, std::int64_t begin, std::int64_t end) const;
};

/// Strides of a dense row-major tensor.
Shape dense_strides(const Shape& extents);

/// "[8, 128]".
std::string text_of(const Shape& shape);

}  // namespace tessera

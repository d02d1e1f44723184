#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/stream.hpp"
#include "runtime/tensor_view.hpp"

namespace tessera {

/// A dense tensor that is to be made.
struct TensorSpec {
    Element element;
    Shape extents;
};

/// A tensor that owns its memory, dense and row-major unless adopted; copies share it. On a GPU memory is taken and
/// given back in the order of a stream: use it on that stream, or on one that waits for it, and keep the tensor while
/// work on it is under way elsewhere. On the host memory begins at a multiple of 256 bytes. A tensor made while its
/// stream is captured is memory of that graph: it holds what the last replay wrote and goes with the graph, which is to
/// be instantiated with "auto free on launch" if it is replayed more than once. Kept for reuse: TESSERA_MEMORY_CACHE.
class Tensor {
public:
    Tensor() = default;

    /// Elements are undefined. A Device stands for its default stream.
    /// Errors: UsageError for a negative or absurd extent, or when memory is out.
    static Tensor empty(const Stream& stream, Element element, const Shape& extents);
    static Tensor empty(const Device& device, Element element, const Shape& extents);
    /// Several in one piece of memory, each at a multiple of 256 bytes: one request of the driver instead of one a
    /// tensor, each of which costs the host about as much as half a launch. The memory goes back with the last of them.
    template <std::size_t N>
    static std::array<Tensor, N> empty_together(const Stream& stream, const TensorSpec (&specs)[N]) {
        std::array<Tensor, N> made;
        make_together(stream, specs, made);
        return made;
    }
    /// All bytes 0, which is 0 in every element type but ue8m0 (2⁻¹²⁷).
    static Tensor zeros(const Stream& stream, Element element, const Shape& extents);
    static Tensor zeros(const Device& device, Element element, const Shape& extents);
    /// A copy of `bytes()` bytes at `source`, which may change as soon as the call returns.
    static Tensor from_host(const Stream& stream, Element element, const Shape& extents, const void* source);
    static Tensor from_host(const Device& device, Element element, const Shape& extents, const void* source);
    /// Memory of another owner; `keep` is released with the last copy.
    static Tensor adopt(const TensorView& view, std::shared_ptr<void> keep);

    /// A copy on the host, complete when the call returns.
    Tensor to_host(const Stream& stream) const;

    const TensorView& view() const { return view_; }
    operator const TensorView&() const { return view_; }

    void* data() const { return view_.data; }
    template <class T>
    T* as() const {
        return static_cast<T*>(view_.data);
    }
    Element element() const { return view_.element; }
    const Shape& extents() const { return view_.extents; }
    const Shape& strides() const { return view_.strides; }
    const Device& device() const { return view_.device; }
    std::int64_t count() const { return view_.count(); }
    std::int64_t bytes() const { return view_.bytes(); }
    const std::shared_ptr<void>& owner() const { return owner_; }

private:
    static void make_together(const Stream& stream, std::span<const TensorSpec> specs, std::span<Tensor> made);

    TensorView view_;
    std::shared_ptr<void> owner_;
};

/// Copies elements of equal type and extents, with any non-negative strides, between any two devices; where a host is
/// involved, done when the call returns. Errors: UsageError if the views do not fit each other.
void copy(const Stream& stream, const TensorView& destination, const TensorView& source);

}  // namespace tessera

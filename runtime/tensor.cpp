#include "runtime/tensor.hpp"

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "dsl/base/error.hpp"
#include "runtime/device_memory.hpp"
#include "runtime/driver/driver.hpp"

namespace tessera {

namespace {

using runtime::check_driver;
using runtime::CurrentContext;

/// Bytes of a dense tensor; what does not fit into 2⁵⁶ bits is a mistake.
std::int64_t bytes_of(Element element, const Shape& extents) {
    constexpr std::int64_t limit = std::int64_t{1} << 56;
    std::int64_t bits = bits_of(element);
    bool empty = false, absurd = false;
    for (std::int64_t extent : extents) {
        if (extent < 0) [[unlikely]]
            throw UsageError(fmt::format("a tensor of extents {} cannot be: an extent is negative", text_of(extents)));
        empty |= extent == 0;
        absurd |= __builtin_mul_overflow(bits, extent, &bits) || bits > limit;
    }
    if (empty) return 0;
    if (absurd) [[unlikely]]
        throw UsageError(fmt::format("a {} tensor of extents {} is larger than any memory; look at its extents",
                                     name_of(element), text_of(extents)));
    return (bits + 7) / 8;
}

std::shared_ptr<void> host_memory(std::int64_t bytes) {
    const std::size_t rounded = (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
    void* memory = std::aligned_alloc(256, rounded);
    if (!memory)
        throw UsageError(
            fmt::format("cannot take {} bytes of host memory; split the work, or make tensors smaller", bytes));
    return std::shared_ptr<void>(memory, std::free);
}

/// Null for 0 bytes.
std::shared_ptr<void> memory_for(const Stream& stream, std::int64_t bytes) {
    if (bytes == 0) return nullptr;
    return stream.device().is_host() ? host_memory(bytes) : runtime::device_memory(stream, bytes);
}

}  // namespace

Tensor Tensor::empty(const Stream& stream, Element element, const Shape& extents) {
    std::shared_ptr<void> memory = memory_for(stream, bytes_of(element, extents));
    const TensorView view = TensorView::of(stream.device(), memory.get(), element, extents);
    return adopt(view, std::move(memory));
}

void Tensor::make_together(const Stream& stream, std::span<const TensorSpec> specs, std::span<Tensor> made) {
    const auto place_of = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
    std::int64_t left = 0;
    for (const TensorSpec& spec : specs) left += place_of(bytes_of(spec.element, spec.extents));
    std::shared_ptr<void> memory = memory_for(stream, left);
    auto* at = static_cast<char*>(memory.get());
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const std::int64_t place = place_of(bytes_of(specs[i].element, specs[i].extents));
        TensorView& view = made[i].view_;
        view.element = specs[i].element;
        view.device = stream.device();
        view.extents = specs[i].extents;
        view.strides = dense_strides(view.extents);
        if (place == 0) continue;  // an empty tensor has no address
        left -= place;
        view.data = at;
        // The last takes the memory over: sharing is counted for all threads, which takes its time.
        made[i].owner_ = left > 0 ? std::shared_ptr<void>(memory, at) : std::shared_ptr<void>(std::move(memory), at);
        at += place;
    }
}

Tensor Tensor::zeros(const Stream& stream, Element element, const Shape& extents) {
    Tensor made = empty(stream, element, extents);
    const auto bytes = static_cast<std::size_t>(made.bytes());
    if (bytes == 0) return made;
    if (stream.device().is_host()) {
        std::memset(made.data(), 0, bytes);
        return made;
    }
    const CurrentContext current(stream.context());
    check_driver(runtime::driver_api().fill_bytes(reinterpret_cast<runtime::DriverPointer>(made.data()), 0, bytes,
                                                  stream.handle()),
                 "cuMemsetD8Async", "clear a tensor");
    return made;
}

Tensor Tensor::from_host(const Stream& stream, Element element, const Shape& extents, const void* source) {
    Tensor made = empty(stream, element, extents);
    copy(stream, made, TensorView::of(Device::host(), source, element, extents));
    return made;
}

Tensor Tensor::empty(const Device& device, Element element, const Shape& extents) {
    return empty(Stream::default_of(device), element, extents);
}

Tensor Tensor::zeros(const Device& device, Element element, const Shape& extents) {
    return zeros(Stream::default_of(device), element, extents);
}

Tensor Tensor::from_host(const Device& device, Element element, const Shape& extents, const void* source) {
    return from_host(Stream::default_of(device), element, extents, source);
}

Tensor Tensor::adopt(const TensorView& view, std::shared_ptr<void> keep) {
    Tensor made;
    made.view_ = view;
    made.owner_ = std::move(keep);
    return made;
}

Tensor Tensor::to_host(const Stream& stream) const {
    Tensor made = empty(Device::host(), element(), extents());
    copy(stream, made, view_);
    return made;
}

}  // namespace tessera

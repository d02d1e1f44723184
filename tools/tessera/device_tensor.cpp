#include "tools/tessera/device_tensor.hpp"

#include <cstring>
#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::tool {

namespace {

Shape shape_of(const std::vector<std::int64_t>& numbers, const std::string& name) {
    if (numbers.size() > static_cast<std::size_t>(Shape::max_rank)) {
        throw UsageError(fmt::format("the tensor {} has {} axes; at most {} are possible", name, numbers.size(),
                                     static_cast<int>(Shape::max_rank)));
    }
    Shape shape;
    for (std::int64_t n : numbers) shape.push_back(n);
    return shape;
}

Element element_for(const CaseTensor& tensor) {
    const auto element = element_of(tensor.type);
    if (!element) {
        throw UsageError(fmt::format("the tensor {} has the type {}, which no kernel takes; convert it", tensor.name,
                                     name_of(tensor.type)));
    }
    return *element;
}

std::vector<std::byte> dense_copy(const Stream& stream, const TensorView& source) {
    const Tensor host = Tensor::empty(Device::host(), source.element, source.extents);
    copy(stream, host, source);
    std::vector<std::byte> bytes(static_cast<std::size_t>(host.bytes()));
    if (!bytes.empty()) std::memcpy(bytes.data(), host.data(), bytes.size());
    return bytes;
}

}  // namespace

DeviceTensor::DeviceTensor(const Stream& stream, const CaseTensor& tensor) {
    const std::vector<std::byte> memory = laid_out(tensor, std::byte{0xff});
    memory_ = Tensor::from_host(stream, Element::u8, {static_cast<std::int64_t>(memory.size())}, memory.data());
    view_ = TensorView::of(stream.device(), memory_.data(), element_for(tensor), shape_of(tensor.shape, tensor.name),
                           shape_of(tensor.strides, tensor.name));
}

Result download(const Stream& stream, const std::string& name, const TensorView& output) {
    CaseTensor tensor{name, stored_type_of(output.element), {}, {}, dense_copy(stream, output)};
    tensor.shape.assign(output.extents.begin(), output.extents.end());
    tensor.strides.assign(output.strides.begin(), output.strides.end());
    return {std::move(tensor), {}, stream.device().is_host()};
}

Result download_columns(const Stream& stream, const std::string& name, const TensorView& output) {
    const std::int64_t rows = output.extents[0];
    TensorView all = output;
    all.extents[0] = (rows + 3) / 4 * 4;
    const std::vector<std::byte> bytes = dense_copy(stream, all);
    Result result = download(stream, name, output);
    const std::ptrdiff_t used = static_cast<std::ptrdiff_t>(result.tensor.values.size());
    result.padding.assign(bytes.begin() + used, bytes.end());
    return result;
}

}  // namespace tessera::tool

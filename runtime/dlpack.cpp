#include "runtime/dlpack.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "dsl/base/error.hpp"

namespace tessera {

namespace {

using namespace dlpack;

std::optional<TypeCode> code_of(Element element) {
    switch (element) {
        case Element::f64:
        case Element::f32:
        case Element::f16: return floating;
        case Element::bf16: return bfloat;
        case Element::e5m2: return float8_e5m2;
        case Element::e4m3: return float8_e4m3fn;
        case Element::e2m1: return float4_e2m1fn;
        case Element::ue8m0: return float8_e8m0fnu;
        case Element::boolean: return boolean_code;
        case Element::tf32:
        case Element::e5m6: return std::nullopt;
        default: return is_signed_integer(element) ? signed_integer : unsigned_integer;
    }
}

Element element_of(const DataType& type) {
    for (int i = 0; i < element_count; ++i) {
        const auto element = static_cast<Element>(i);
        const bool paired = element == Element::e2m1 && type.lanes == 2;
        if (code_of(element) == static_cast<TypeCode>(type.code) && bits_of(element) == type.bits &&
            (type.lanes == 1 || paired))
            return element;
    }
    throw UsageError(
        fmt::format("DLPack type code {} with {} bits and {} lanes is none that Tessera knows; convert the "
                    "tensor, or hand over its bytes as u8",
                    type.code, type.bits, type.lanes));
}

Device device_of(const DeviceId& id) {
    switch (id.type) {
        case cpu:
        case cuda_host: return Device::host();
        case cuda:
        case cuda_managed: return Device::cuda(id.index);
        default:
            throw UsageError(
                fmt::format("a DLPack tensor on a device of type {}: Tessera knows the CPU (1) and CUDA (2); "
                            "move the tensor first",
                            id.type));
    }
}

/// What a handed-out capsule keeps alive.
struct Export {
    ManagedTensorVersioned managed;
    Tensor tensor;
    Shape shape, strides;
};

}  // namespace

ManagedTensorVersioned* to_dlpack(const Tensor& tensor) {
    const std::optional<TypeCode> code = code_of(tensor.element());
    if (!code)
        throw UsageError(fmt::format("DLPack has no type for {}; hand the bytes out as u8", name_of(tensor.element())));
    auto* out = new Export{{}, tensor, tensor.extents(), tensor.strides()};
    out->managed.context = out;
    out->managed.deleter = [](ManagedTensorVersioned* self) { delete static_cast<Export*>(self->context); };
    out->managed.flags = tensor.view().read_only ? flag_read_only : 0;
    const Device& device = tensor.device();
    DenseTensor& dense = out->managed.tensor;
    dense.data = tensor.data();
    dense.device = device.is_host() ? DeviceId{cpu, 0} : DeviceId{cuda, device.index()};
    dense.rank = tensor.extents().rank();
    dense.type = {*code, static_cast<std::uint8_t>(bits_of(tensor.element())), 1};
    dense.shape = dense.rank > 0 ? &out->shape[0] : nullptr;
    dense.strides = dense.rank > 0 ? &out->strides[0] : nullptr;
    dense.byte_offset = 0;
    return &out->managed;
}

Tensor from_dlpack(ManagedTensorVersioned* managed) {
    if (!managed) throw UsageError("from_dlpack was given a null pointer");
    if (managed->version.major != 1)
        throw UsageError(
            fmt::format("a DLPack tensor of version {}.{}: Tessera reads 1.x (capsules named "
                        "\"dltensor_versioned\")",
                        managed->version.major, managed->version.minor));
    const DenseTensor& dense = managed->tensor;
    if (dense.rank < 0 || dense.rank > Shape::max_rank)
        throw UsageError(
            fmt::format("a DLPack tensor of {} axes: Tessera has at most {}", dense.rank, Shape::max_rank));
    const Element element = element_of(dense.type);
    if (bits_of(element) % 8 != 0 && (managed->flags & flag_subbyte_padded))
        throw UsageError(
            fmt::format("a DLPack tensor of {} with every element in a byte of its own: pack it, two to a "
                        "byte, the first in the low half",
                        name_of(element)));
    const int last = dense.rank - 1;
    const std::int64_t lanes = dense.type.lanes;
    if (lanes > 1 && (last < 0 || (dense.strides && dense.shape[last] > 1 && dense.strides[last] != 1)))
        throw UsageError("a DLPack tensor of paired e2m1 whose last axis is not dense; make it contiguous first");
    Shape extents;
    for (int axis = 0; axis < dense.rank; ++axis) extents.push_back(dense.shape[axis] * (axis == last ? lanes : 1));
    Shape strides = dense_strides(extents);
    for (int axis = 0; dense.strides && axis < dense.rank; ++axis)
        strides[axis] = axis == last && lanes > 1 ? 1 : dense.strides[axis] * lanes;

    void* data = dense.data ? static_cast<char*>(dense.data) + dense.byte_offset : nullptr;
    TensorView view = TensorView::of(device_of(dense.device), data, element, extents, strides);
    view.read_only = managed->flags & flag_read_only;
    return Tensor::adopt(view, std::shared_ptr<void>(data, [managed](void*) {
                             if (managed->deleter) managed->deleter(managed);
                         }));
}

}  // namespace tessera

#include "runtime/launch/tensor_maps.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/ir/tensor_map.hpp"
#include "runtime/driver/driver.hpp"

namespace tessera::runtime {

namespace {

constexpr std::int64_t most_extent = ir::most_mapped_extent,
                       most_stride = (std::int64_t{1} << 40) - 1;  // elements, bytes

const ir::TensorParam& tensor_of(const LaunchPlan& plan, const ir::TensorMap& map) {
    return plan.program().tensors[static_cast<std::size_t>(map.tensor)];
}

template <class... Args>
[[noreturn]] void refuse(const LaunchPlan& plan, const ir::TensorMap& map, fmt::format_string<Args...> text,
                         Args&&... args) {
    throw UsageError(fmt::format("kernel {}: tensor {} is copied from by a tensor map, and ", plan.program().name,
                                 tensor_of(plan, map).name) +
                     fmt::format(text, std::forward<Args>(args)...));
}

int element_code(int bytes) {
    using namespace tensor_map_code;
    return bytes == 1 ? u8 : bytes == 2 ? u16 : bytes == 4 ? u32 : u64;
}

int swizzle_code(int bytes) {
    using namespace tensor_map_code;
    return bytes == 0 ? swizzle_none : bytes == 32 ? swizzle_32 : bytes == 64 ? swizzle_64 : swizzle_128;
}

}  // namespace

TensorMaps::TensorMaps(const LaunchPlan& plan) : plan_(plan), kinds_(plan.program().maps.size()) {
    for (std::size_t i = 0; i < kinds_.size(); ++i) kinds_[i].map = &plan.program().maps[i];
}

TensorMaps::Key TensorMaps::key_of(const ir::TensorMap& map, std::span<const std::uint64_t> values,
                                   const void* data) const {
    const TensorPlan& tensor = plan_.tensors()[static_cast<std::size_t>(map.tensor)];
    const std::int64_t element = bits_of(tensor.type) / 8;
    Key key{reinterpret_cast<std::uintptr_t>(data), {}, {}};
    const std::size_t rank = tensor.axes.size();
    for (std::size_t i = 0; i < rank; ++i) {
        const AxisPlan& axis = tensor.axes[rank - 1 - i];
        const std::int64_t extent = axis.extent(values), stride = axis.stride(values) * element;
        if (extent < 1) refuse(plan_, map, "has no elements; launch nothing for an empty tensor, or copy by vectors");
        if (extent > most_extent)
            refuse(plan_, map, "has {} elements along axis {}; the copy engine counts to {}", extent, rank - 1 - i,
                   most_extent);
        if (stride < 0 || stride > most_stride)
            refuse(plan_, map, "its stride along axis {} is {} bytes; the copy engine takes 0 to {}", rank - 1 - i,
                   stride, most_stride);
        key.extents[i] = static_cast<std::uint64_t>(extent), key.strides[i] = static_cast<std::uint64_t>(stride);
    }
    return key;
}

void TensorMaps::check(std::span<const std::uint64_t> values) const {
    for (const Kind& kind : kinds_) key_of(*kind.map, values, nullptr);
}

void TensorMaps::encode(const ir::TensorMap& map, const Key& key, TensorMapWords& words) const {
    std::array<std::uint32_t, most_axes> box{}, steps{};
    const auto rank = static_cast<std::size_t>(map.box.rank());
    const int element = bits_of(tensor_of(plan_, map).type) / 8;
    for (std::size_t i = 0; i < rank; ++i)
        box[i] = static_cast<std::uint32_t>(map.box[static_cast<int>(rank - 1 - i)]), steps[i] = 1;
    // A row's neighbour in the second level cache is fetched along where rows are longer than a line.
    const int promotion = map.box.back() * element > 128 ? tensor_map_code::promote_256 : tensor_map_code::promote_128;
    const DriverResult result =
        driver_api().encode_tensor_map(&words, element_code(element), static_cast<unsigned>(rank),
                                       reinterpret_cast<void*>(key.address), key.extents.data(), key.strides.data() + 1,
                                       box.data(), steps.data(), 0, swizzle_code(map.swizzle), promotion, 0);
    if (result != driver_code::success)
        check_driver(result, "cuTensorMapEncodeTiled",
                     fmt::format("describe tensor {} of kernel {} to the copy engine", tensor_of(plan_, map).name,
                                 plan_.program().name));
}

void TensorMaps::encode(void* context, std::span<const TensorRef> tensors, std::span<const std::uint64_t> values,
                        TensorMapWords* into) {
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
        Kind& kind = kinds_[i];
        const ir::TensorMap& map = *kind.map;
        const Key key = key_of(map, values, tensors[static_cast<std::size_t>(map.tensor)]->data);
        const std::lock_guard lock(mutex_);
        auto known = std::find_if(kind.known.begin(), kind.known.end(), [&](const Known& k) { return k.key == key; });
        if (known == kind.known.end()) {
            const CurrentContext current(context);
            encode(map, key, into[i]);
            known = kind.known.begin() + static_cast<std::ptrdiff_t>(kind.next);
            *known = {key, into[i]};
            kind.next = (kind.next + 1) % remembered;
        } else {
            into[i] = known->words;
        }
    }
}

}  // namespace tessera::runtime

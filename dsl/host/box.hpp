#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "dsl/host/launch.hpp"

namespace tessera::host {

/// Where one copy by a tensor map goes: coordinates of the box' first element in the tensor, its offset in the tile.
struct Box {
    const ir::TensorMap& map;
    const Launch::Tensor& tensor;
    std::array<std::int64_t, ir::TensorMap::most_axes> from{};
    std::int64_t to = 0;

    /// One row of it, along the last axis; the numbers are of elements.
    struct Row {
        std::int64_t to;          // offset in the tile, without its swizzle
        std::int64_t from = 0;    // offset in the tensor of the first element that is inside
        std::int64_t before = 0;  // elements ahead of that one
        std::int64_t inside = 0;  // elements that are
    };

    std::int64_t length() const { return map.box.back(); }
    std::int64_t rows() const { return map.box.count() / length(); }

    Row row(std::int64_t index) const {
        const auto last = static_cast<std::size_t>(map.box.rank()) - 1;
        Row r{to + index * length()};
        const std::int64_t first = std::max<std::int64_t>(from[last], 0);
        const std::int64_t end = std::min(from[last] + length(), tensor.extents[last]);
        bool inside = first < end;
        std::int64_t offset = first * tensor.strides[last];
        for (std::size_t axis = last; axis-- > 0;) {
            const std::int64_t side = map.box[static_cast<int>(axis)], c = from[axis] + index % side;
            inside = inside && c >= 0 && c < tensor.extents[axis];
            offset += c * tensor.strides[axis];
            index /= side;
        }
        if (inside) r.from = offset, r.before = first - from[last], r.inside = end - first;
        return r;
    }
};

}  // namespace tessera::host

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "dsl/base/error.hpp"
#include "dsl/lower/expressions.hpp"
#include "dsl/lower/plan.hpp"

// What an access may move at once, and how the threads share a copy.

namespace tessera::lower {

std::vector<int> tile_axes(const ir::View& view) {
    std::vector<int> axes;
    for (std::size_t i = 0; i < view.axes.size(); ++i)
        if (!view.axes[i].picked) axes.push_back(static_cast<int>(i));
    return axes;
}

namespace {

/// Elements that one access of so many bytes moves. e5m6 goes 8 at a time, as three accesses of 4 to 16 bytes.
std::int64_t elements_in(Element type, int bytes) {
    if (type == Element::e5m6) return std::min(bytes, 16) / 4 * 8;
    return bytes * 8 / bits_of(type);
}

}  // namespace

int longest_vector(const ir::Program& program, const ir::View& view, const Target& target, int& axis) {
    const Facts facts(program);
    const std::vector<int> axes = tile_axes(view);
    const auto memory = static_cast<std::size_t>(view.memory);
    axis = -1;
    if (view.space == ir::Space::shared) {
        const ir::SharedTile& tile = program.shared[memory];
        axis = static_cast<int>(axes.size()) - 1;
        if (axes.empty() || axes.back() + 1 != tile.shape.rank()) return axis = -1, 1;
        if (!view.axes.back().offset->scalar()) return 1;
        std::int64_t vector =
            std::min<std::int64_t>(elements_in(tile.type, 16), facts.divisor(view.axes.back().offset));
        vector = std::min(vector, tile.shape.back() & -tile.shape.back());
        if (tile.swizzle.bits > 0) vector = std::min(vector, std::int64_t{1} << tile.swizzle.base);
        return static_cast<int>(vector);
    }
    const ir::TensorParam& tensor = program.tensors[memory];
    const auto gathered = [&](int t) {
        return !view.axes[static_cast<std::size_t>(axes[static_cast<std::size_t>(t)])].offset->scalar();
    };
    std::int64_t vector = elements_in(tensor.type, std::min(target.vector_bytes(), tensor.align));
    for (std::size_t t = 0; t < axes.size(); ++t) {
        const ir::Axis& a = tensor.axes[static_cast<std::size_t>(axes[t])];
        std::int64_t stride = 0;
        const bool plain = a.inner == 1 && constant_value(a.stride, stride) && stride == 1;
        if (plain || (a.inner > 1 && a.inner_stride == 1)) axis = static_cast<int>(t);
    }
    if (axis < 0 || gathered(axis)) return 1;
    for (std::size_t i = 0; i < tensor.axes.size(); ++i) {
        const ir::Axis& a = tensor.axes[i];
        if (static_cast<int>(i) == axes[static_cast<std::size_t>(axis)]) {
            vector = std::min(vector, facts.divisor(view.axes[i].offset));
            vector = std::min(vector, facts.divisor(a.extent));
            if (a.inner > 1) vector = std::min<std::int64_t>({vector, a.inner & -a.inner, facts.divisor(a.stride)});
        } else {
            vector = std::min(vector, facts.divisor(a.stride));
            if (a.inner > 1) vector = std::min(vector, a.inner_stride & -a.inner_stride);
        }
    }
    return static_cast<int>(vector);
}

namespace {

/// All of the piece for one thread.
Layout box_layout(const ir::Copy& copy) {
    Layout layout;
    for (const ir::ViewAxis& a : copy.to.axes)
        if (!a.picked) layout.axes.push_back({{a.extent, 0}});
    return canonical(std::move(layout));
}

}  // namespace

Layout copy_layout(const ir::Program& program, const ir::Copy& copy, const Place& place, const Target& target,
                   int& axis, int& vector) {
    if (copy.tensor) {
        axis = -1, vector = 1;
        box_of(program, copy, place);
        return box_layout(copy);
    }
    int there = -1;
    vector =
        std::min(longest_vector(program, copy.from, target, axis), longest_vector(program, copy.to, target, there));
    const Element type = program.shared[static_cast<std::size_t>(copy.to.memory)].type;
    vector = std::min(vector, 128 / bits_of(type));
    Shape extents, inner;
    for (const ir::ViewAxis& a : copy.to.axes)
        if (!a.picked) extents.push_back(a.extent);
    if (axis >= 0) vector = static_cast<int>(std::gcd<std::int64_t>(vector, extents[axis]));
    if (copy.mbarriers >= 0)
        return bulk_layout(program, copy, extents, place, target, axis == there ? axis : -1, vector);
    if (axis >= 0 && !copy.per_thread.empty())
        vector = static_cast<int>(std::gcd<std::int64_t>(vector, copy.per_thread[axis]));
    if (axis < 0 || axis != there || vector * bits_of(type) < 32)
        throw UsageError(place,
                         "copy_async moves vectors of at least 4 bytes along an axis that is contiguous on both "
                         "sides; record alignments and multiples (align, multiple_of), or load and store");
    for (int i = 0; i < extents.rank(); ++i)
        inner.push_back(!copy.per_thread.empty() ? copy.per_thread[i] : i == axis ? vector : 1);
    return canonical(natural_layout(extents, axis, inner, program.threads));
}

}  // namespace tessera::lower

#include <algorithm>
#include <numeric>
#include <string>

#include "dsl/base/error.hpp"
#include "dsl/lower/expressions.hpp"
#include "dsl/lower/plan.hpp"

// How the threads share what goes past the registers: copies by vectors, and rows that the copy engine moves.

namespace tessera::lower {

namespace {

/// A row of a tensor's piece for each thread of the first warp; `vector` gets its length.
Layout rows_layout(const ir::Program& program, const ir::View& view, const Shape& extents, int axis, int& vector,
                   const char* what, const Place& place) {
    constexpr int warp = 32;
    const ir::TensorParam& tensor = program.tensors[static_cast<std::size_t>(view.memory)];
    bool whole = false;
    if (axis >= 0 && vector * bits_of(tensor.type) % 128 == 0) {
        vector = static_cast<int>(extents[axis]);
        const auto along = static_cast<std::size_t>(tile_axes(view)[static_cast<std::size_t>(axis)]);
        const ir::Axis& a = tensor.axes[along];
        const Ref offset = view.axes[along].offset;
        whole = a.inner == 1 && vector * bits_of(tensor.type) % 128 == 0 &&
                (Facts(program).inside(offset, vector, a.extent) ||
                 (is_multiple(a.extent, vector) && is_multiple(offset, vector)));
    }
    if (!whole)
        throw UsageError(place, std::string(what) +
                                    " moves whole rows of a piece, multiples of 16 bytes at such addresses, that lie "
                                    "wholly inside the tensor or outside: their length must divide its extent and the "
                                    "offset; record alignments and multiples (align, multiple_of)");
    Shape inner;
    for (int i = 0; i < extents.rank(); ++i) inner.push_back(i == axis ? vector : 1);
    return canonical(natural_layout(extents, axis, inner, warp));
}

Shape extents_of(const ir::View& view) {
    Shape extents;
    for (const ir::ViewAxis& a : view.axes)
        if (!a.picked) extents.push_back(a.extent);
    return extents;
}

}  // namespace

Layout prefetch_layout(const ir::Program& program, const ir::View& view, const Place& place, const Target& target,
                       int& axis, int& vector) {
    vector = longest_vector(program, view, target, axis);
    return rows_layout(program, view, extents_of(view), axis, vector, "a prefetch", place);
}

Layout copy_layout(const ir::Program& program, const ir::Copy& copy, const Place& place, const Target& target,
                   int& axis, int& vector) {
    int there = -1;
    vector =
        std::min(longest_vector(program, copy.from, target, axis), longest_vector(program, copy.to, target, there));
    const Element type = program.shared[static_cast<std::size_t>(copy.to.memory)].type;
    vector = std::min(vector, 128 / bits_of(type));
    const Shape extents = extents_of(copy.to);
    Shape inner;
    if (axis >= 0) vector = static_cast<int>(std::gcd<std::int64_t>(vector, extents[axis]));
    if (copy.mbarriers >= 0) {
        const bool straight = program.shared[static_cast<std::size_t>(copy.to.memory)].swizzle.bits == 0;
        return rows_layout(program, copy.from, extents, axis == there && straight ? axis : -1, vector, "a bulk copy",
                           place);
    }
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

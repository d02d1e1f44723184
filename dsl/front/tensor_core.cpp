#include "dsl/front/tensor_core.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/recorder.hpp"
#include "dsl/ir/tensor_core.hpp"

namespace tessera::detail {

namespace {

/// What a piece must be for tensor cores to read it where it lies: see ir/tensor_core.hpp.
void require_fit(const ir::Program& program, const ViewSpec& spec, const Place& place) {
    if (spec.space != ir::Space::shared)
        throw UsageError(place,
                         fmt::format("mma of a piece of the tensor {}: an operand in place lies in shared memory; load "
                                     "the piece, or copy it to a shared tile",
                                     program.tensors[static_cast<std::size_t>(spec.memory)].name));
    const ir::SharedTile& tile = program.shared[static_cast<std::size_t>(spec.memory)];
    const int last = spec.rank - 1;
    const std::int64_t columns = tile.shape[last], bytes = columns * bits_of(tile.type) / 8;
    if (bytes != 32 && bytes != 64 && bytes != 128)
        throw UsageError(place, fmt::format("mma of a piece of {}, whose rows are {} elements of {}, {} bytes: tensor "
                                            "cores read rows of 32, 64 or 128 bytes; cut K into parts of {}: a tile "
                                            "[K / W, rows, W]",
                                            tile.name, columns, name_of(tile.type), bytes, 1024 / bits_of(tile.type)));
    if (!ir::fits_tensor_cores(tile))
        throw UsageError(
            place, fmt::format("mma of a piece of {}, whose swizzle is (bits {}, base {}, shift {}): tensor "
                               "cores cannot read it; declare the tile with operand_swizzle<{}>({})",
                               tile.name, tile.swizzle.bits, tile.swizzle.base, tile.swizzle.shift, name_of(tile.type),
                               columns));
    for (int axis = 0; axis <= last; ++axis)
        if (!spec.offset[axis]->scalar())
            throw UsageError(place,
                             fmt::format("mma of a piece of {} that a tile of indices picks along axis {}: tensor "
                                         "cores read rows one behind the other; load the piece first",
                                         tile.name, axis));
    const auto* row = spec.offset[last - 1]->as<ir::Constant>();
    const bool whole = !spec.picked[last] && !spec.picked[last - 1] && spec.extent[last] == columns;
    if (!whole || !row || row->bits % 8 != 0 || tile.shape[last - 1] % 8 != 0)
        throw UsageError(place, fmt::format("mma of a piece of {} {}: it takes whole rows of {}, from a constant "
                                            "multiple of 8 on, of a tile with a multiple of 8 rows",
                                            tile.name, text_of(tile.shape), columns));
}

/// The operand as a tile [rows, K].
Ref tile_of(const MmaOperand& operand, const Place& place) {
    if (!operand.piece) return operand.tile;
    const Ref loaded = load(*operand.piece, nullptr, {}, place);
    require_fit(Recorder::active(place).program(), *operand.piece, place);
    if (loaded->shape.rank() == 2) return loaded;
    constexpr int order[] = {1, 0, 2};
    return merge(permute(loaded, order, 3, place), 1, place);
}

void require_extents(Ref a, Ref b, Ref c, std::int64_t rows, const Place& place) {
    const int depth = ir::tensor_core_instruction(a->type)->depth;
    const std::int64_t m = a->shape[0], n = b->shape[0];
    if (a->shape[1] != b->shape[1] || c->shape != Shape{m, n})
        throw UsageError(place, fmt::format("mma of a {}, b {} and c {}: it needs a [M, K], b [N, K] and c [M, N]",
                                            text_of(a->shape), text_of(b->shape), text_of(c->shape)));
    if (m % rows != 0 || n % ir::mma_columns != 0 || a->shape[1] % depth != 0)
        throw UsageError(
            place, fmt::format("mma of a {} and b {} of {}: M must be a multiple of {}, N of {} and K of "
                               "{}; take a larger tile, what lies outside of a tensor is loaded as 0",
                               text_of(a->shape), text_of(b->shape), name_of(a->type), rows, ir::mma_columns, depth));
}

}  // namespace

Ref mma(const MmaOperand& left, const MmaOperand& right, Ref c, int warps, const Place& place) {
    Recorder& r = Recorder::active(place);
    for (Ref operand : {left.tile, right.tile, c})
        if (operand) r.require_open(operand, place);
    const Ref a = tile_of(left, place);
    Ref b = tile_of(right, place);
    require_extents(a, b, c, right.piece ? ir::warpgroup_rows : ir::mma_rows, place);
    if (warps < 0 || (warps & (warps - 1)) != 0)
        throw UsageError(place, fmt::format("mma over {} warps along M: a power of two, or 0", warps));
    // Twice the same tile: each operand has a layout of its own, so each is a node of its own.
    if (a == b) b = r.bind(b->type, b->shape, place, ir::Reshape{b});
    return r.bind(f32, c->shape, place, ir::Mma{a, b, c, warps, left.piece != nullptr, right.piece != nullptr});
}

}  // namespace tessera::detail

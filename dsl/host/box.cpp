#include "dsl/host/box.hpp"

#include <array>
#include <cstring>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/host/check_where.hpp"
#include "dsl/host/machine.hpp"

// Copies by tensor maps: one thread moves a box, row by row, and what is outside of the tensor becomes zeros.

namespace tessera::host {

namespace {

/// The one thread where the predicate holds; the number of threads if there is none.
std::uint32_t starter(const std::uint32_t* predicate, std::uint32_t threads) {
    std::uint32_t found = threads;
    for (std::uint32_t t = 0; t < threads; ++t) {
        if (predicate[t] == 0) continue;
        require_internal(found == threads, "several threads start one copy by a tensor map");
        found = t;
    }
    return found;
}

/// Puts a row of a tile where the tile's swizzle, of pieces of 16 bytes, has it.
void put_row(std::byte* tile, std::int64_t at, const std::byte* row, std::int64_t bytes, int swizzle) {
    constexpr std::int64_t piece = 16;
    const std::int64_t mask = swizzle / piece - 1;
    for (std::int64_t b = at; b < at + bytes; b += piece) {
        const std::int64_t to = swizzle > 0 ? b ^ (((b / 128) & mask) * piece) : b;
        std::memcpy(tile + to, row + (b - at), static_cast<std::size_t>(piece));
    }
}

}  // namespace

void Machine::box(const Instruction& i, const Cursor& cursor) {
    const BoxInfo& info = code_.boxes[i.info];
    const AccessInfo& tile = code_.accesses[info.access];
    const Operand* in = code_.operands.data() + i.operands;
    const std::uint32_t t = starter(static_cast<const std::uint32_t*>(at(*in++, cursor)), cursor.threads);
    if (t == cursor.threads) return;
    const auto number = [&] { return static_cast<const std::int64_t*>(at(*in++, cursor))[t]; };
    const ir::TensorMap& map = launch_.program.maps[static_cast<std::size_t>(info.map)];
    Box box{map, launch_.tensors[static_cast<std::size_t>(map.tensor)]};
    for (int axis = 0; axis < map.box.rank(); ++axis) box.from[static_cast<std::size_t>(axis)] = number();
    box.to = number();
    std::array<std::int64_t, Shape::max_rank> to{};
    for (int axis = 0; axis < tile.coordinates; ++axis) to[static_cast<std::size_t>(axis)] = number();
    const std::int64_t stage = number();
    if (checker_)
        checker_->check_box(box, tile, to.data(), static_cast<int>(cursor.first + t), code_.accesses[info.access + 1],
                            &stage);
    const auto* const tensor =
        static_cast<const std::byte*>(launch_.arguments.tensors[static_cast<std::size_t>(map.tensor)]);
    const std::int64_t element = bits_of(tile.type) / 8, bytes = box.length() * element;
    std::array<std::byte, ir::TensorMap::most_side * 8> row{};
    for (std::int64_t r = 0; r < box.rows(); ++r) {
        const Box::Row at_row = box.row(r);
        std::memset(row.data(), 0, static_cast<std::size_t>(bytes));
        if (at_row.inside > 0)
            std::memcpy(row.data() + at_row.before * element, tensor + at_row.from * element,
                        static_cast<std::size_t>(at_row.inside * element));
        put_row(base_of(tile), at_row.to * element, row.data(), bytes, map.swizzle);
    }
}

/// Each row is looked at as a store that is under way until the mbarrier's phase is complete, and what it reads, where
/// the kernel may write there, as frozen as long.
void AccessChecker::check_box(const Box& box, const AccessInfo& info, const std::int64_t* to, int thread,
                              const AccessInfo& mbarrier, const std::int64_t* stage) {
    const ir::SharedTile& tile = launch_.program.shared[static_cast<std::size_t>(info.memory)];
    const int rank = tile.shape.rank();
    std::array<std::int64_t, Shape::max_rank> place{};
    std::array<const std::int64_t*, Shape::max_rank> coordinates{};
    for (int axis = 0; axis < rank; ++axis)
        place[static_cast<std::size_t>(axis)] = to[axis],
        coordinates[static_cast<std::size_t>(axis)] = &place[static_cast<std::size_t>(axis)];
    std::int64_t expected = 0;
    for (int axis = 0; axis < rank; ++axis) expected = expected * tile.shape[axis] + to[axis];
    require_internal(expected == box.to, "the offset of a box in its tile is not that of its coordinates");
    const std::int64_t element = bits_of(info.type) / 8,
                       first = box.from[static_cast<std::size_t>(box.map.box.rank()) - 1];
    if (first * element % 16 != 0)
        throw UsageError(
            info.place,
            fmt::format("kernel '{}': a copy by the tensor map {} begins at element {} along the last axis, "
                        "which is no multiple of 16 bytes ({}); the copy engine takes only such",
                        launch_.program.name, box.map.name, first, describe_block()));
    check_mbarrier(mbarrier, stage, thread, 1);
    counted_by_ = mbarrier_byte(mbarrier, *stage);
    sources_.assign(static_cast<std::size_t>(launch_.program.threads), {});
    const bool changing = launch_.program.tensors[static_cast<std::size_t>(box.map.tensor)].role == ir::Role::inout;
    for (std::int64_t r = 0; r < box.rows(); ++r) {
        const Box::Row row = box.row(r);
        std::int64_t rest = row.to;
        for (int axis = rank; r > 0 && axis-- > 0; rest /= tile.shape[axis])
            place[static_cast<std::size_t>(axis)] = axis > 0 ? rest % tile.shape[axis] : rest;
        VectorAccess access{};
        access.offset = &row.to;
        access.count = info.lanes;
        access.threads = 1;
        const Where at{info, access, coordinates.data(), 0, thread};
        if (changing && row.inside > 0)
            sources_[static_cast<std::size_t>(thread)] =
                source_at(static_cast<std::size_t>(box.map.tensor), row.from * element, row.inside * element);
        check_bounds(at);
        check_alignment(at);
        check_copies(at), check_operands(at), check_fence(at), check_order(at);
        sources_[static_cast<std::size_t>(thread)] = {};
    }
    counted_by_ = CopiesUnderWay::none;
}

}  // namespace tessera::host

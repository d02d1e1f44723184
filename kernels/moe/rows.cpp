#include "kernels/moe/rows.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/functions.hpp"

namespace tessera::moe {

RowTile row_tile(std::int64_t length, std::int64_t vector, std::int64_t most) {
    constexpr std::int64_t enough = 4;
    const std::int64_t vectors = ceil_div(length, vector);
    // Fewer lanes on a row would leave it uncoalesced.
    const auto fewest =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(vectors, 8))));
    std::int64_t lanes = 1, slots = 1, padding = -1;
    bool whole = false;
    for (std::int64_t n = 256; n >= fewest; n /= 2) {
        const std::int64_t all = ceil_div(vectors, n), blocks = ceil_div(all, most), each = ceil_div(all, blocks);
        const std::int64_t waste = n * each * blocks - vectors;
        if (padding >= 0 && waste >= padding) continue;
        lanes = n, slots = each, padding = waste, whole = blocks == 1;
    }
    const std::int64_t threads = std::max<std::int64_t>(lanes, 128);
    const std::int64_t rows = threads / lanes * (whole ? std::max<std::int64_t>(1, enough / slots) : 1);
    return {rows, lanes * slots * vector, static_cast<int>(threads)};
}

void check_rows(const char* function, const char* name, const Stream& stream, const TensorView& x) {
    if (x.rank() != 2)
        throw UsageError(fmt::format("{}: {} has rank {} (extents {}); it is a matrix", function, name, x.rank(),
                                     text_of(x.extents)));
    if (x.extents[1] < 1)
        throw UsageError(
            fmt::format("{}: {} has extents {}; a row has at least one element", function, name, text_of(x.extents)));
    if ((x.extents[1] > 1 && x.strides[1] != 1) || (x.extents[0] > 1 && x.strides[0] < 0))
        throw UsageError(fmt::format(
            "{}: {} has strides {}; rows must be dense (inner stride 1) and the row stride at least 0; copy it first",
            function, name, text_of(x.strides)));
    check_device(function, name, stream, x);
}

void check_positions(const char* function, const Stream& stream, const TensorView& positions, std::int64_t tokens) {
    check_rows(function, "token_topk_to_pos", stream, positions);
    if (positions.element != i32 || positions.extents[0] != tokens)
        throw UsageError(fmt::format("{}: token_topk_to_pos is {} {}, but {} tokens need i32 [{}, K]", function,
                                     name_of(positions.element), text_of(positions.extents), tokens, tokens));
}

TensorView with_pitch(const TensorView& x) {
    TensorView result = x;
    if (x.extents[0] <= 1) result.strides[0] = align_up(x.extents[1], 16);
    result.strides[1] = 1;
    return result;
}

int common_alignment(std::initializer_list<TensorView> matrices) {
    std::uint64_t all = 16;
    for (const TensorView& m : matrices) {
        all |= reinterpret_cast<std::uintptr_t>(m.data);
        const std::int64_t bytes = bits_of(m.element) / 8;
        if (m.extents[0] > 1) all |= static_cast<std::uint64_t>(m.strides[0] * bytes);
    }
    return static_cast<int>(all & (~all + 1));
}

}  // namespace tessera::moe

#pragma once

#include <algorithm>
#include <bit>

#include "dsl/front/kernel.hpp"

namespace tessera::moe {

/// Reports positions of row m of the grid's tokens that are no row of the buffer. Where rows are moved, masks skip
/// them already: this looks at the list once more, beside the rows, in the blocks with n = 0.
inline void report_positions(Kernel& k, const Global<i32, 2>& token_topk_to_pos, std::int64_t rows, const Index& m,
                             const Index& n, std::int64_t topk, const Index& positions) {
    constexpr std::int64_t most = 16;
    const auto wide =
        std::min<std::int64_t>(most, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(topk))));
    k.serial(select(n == 0, Index(ceil_div(topk, wide)), 0), [&](Index step) {
        const auto piece = token_topk_to_pos.block({rows, wide}, {m, step});
        const auto position = load(piece, -1);
        k.report(cast<i64>(position) >= positions, "a position is a row of the buffer, or negative for none", piece,
                 position);
    });
}

}  // namespace tessera::moe

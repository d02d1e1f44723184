#include "dsl/lower/lower.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/ir/each_warp.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/barriers.hpp"
#include "dsl/lower/global_order.hpp"
#include "dsl/lower/name_shared.hpp"
#include "dsl/lower/plan.hpp"
#include "dsl/lower/proxy_fence.hpp"
#include "dsl/lower/tile_code.hpp"
#include "dsl/lower/waits.hpp"

namespace tessera::lower {

namespace {

/// What the place of each tile is a multiple of; tensor cores and the copy engine swizzle by its address.
std::vector<std::int64_t> alignments(const ir::Program& program) {
    std::vector<std::int64_t> result(program.shared.size(), 128);
    const auto at_least = [&](int tile, std::int64_t bytes) {
        if (const auto i = static_cast<std::size_t>(tile); tile >= 0) result[i] = std::max(result[i], bytes);
    };
    ir::for_each_statement(program.body, [&](const ir::Statement& s) {
        if (const auto* product = s.as<ir::WarpgroupMma>())
            for (int tile : {product->a_tile, product->b_tile})
                if (tile >= 0) at_least(tile, 8 * ir::row_bytes(program.shared[static_cast<std::size_t>(tile)]));
        if (const auto* box = s.as<ir::CopyBox>())
            at_least(box->tile, program.maps[static_cast<std::size_t>(box->map)].alignment());
    });
    return result;
}

std::int64_t bytes_of(const ir::SharedTile& tile) {
    constexpr std::int64_t line = 128;
    return ((tile.shape.count() * bits_of(tile.type) + 7) / 8 + line - 1) / line * line;
}

/// Pass: a place in the block's shared memory for every tile, in order, each at a multiple of 128 bytes or more. The
/// tiles past `given` are the lowering's own, written and read back at once: where all together would take much, the
/// large ones of them share one place, at the price of barriers between them. Roles, and warps by themselves, have no
/// barrier between them.
void place_shared_tiles(ir::Program& program, std::size_t given, const Target& target) {
    constexpr std::int64_t much = 48 * 1024, large = 1024;
    const std::vector<std::int64_t> aligned = alignments(program);
    std::int64_t all = 0;
    if (program.roles.empty() && !ir::has_each_warp(program))
        for (const ir::SharedTile& tile : program.shared) all += bytes_of(tile);
    std::int64_t next = 0, common = -1, common_bytes = 0;
    for (std::size_t i = 0; i < program.shared.size(); ++i)
        if (i >= given && all > much && bytes_of(program.shared[i]) >= large)
            common_bytes = std::max(common_bytes, bytes_of(program.shared[i]));
    for (std::size_t i = 0; i < program.shared.size(); ++i) {
        ir::SharedTile& tile = program.shared[i];
        const bool shares = i >= given && all > much && bytes_of(tile) >= large;
        if (shares && common >= 0) {
            tile.byte_offset = common;
            continue;
        }
        tile.byte_offset = next = (next + aligned[i] - 1) / aligned[i] * aligned[i];
        if (shares) common = next;
        next += shares ? common_bytes : bytes_of(tile);
        if (next > target.shared_bytes)
            throw UsageError(tile.place,
                             fmt::format("shared tiles up to {} take {} bytes; a block of {} has {}: make them smaller",
                                         tile.name, next, target.arch(), target.shared_bytes));
    }
    program.shared_bytes = next;
}

}  // namespace

ir::Program lower(const ir::Program& recorded, const Target& target) {
    Plan plan;
    choose_bindings(recorded, plan);
    find_teams(recorded, plan);
    choose_engines(recorded, target, plan);
    choose_layouts(recorded, target, plan);
    choose_order(recorded, target, plan);
    ir::Program program = TileCode(recorded, target, plan).run();
    place_shared_tiles(program, recorded.shared.size(), target);
    drop_needless_barriers(program, plan);
    fence_other_paths(program);
    name_shared_expressions(program);
    delay_product_waits(program);
    return program;
}

}  // namespace tessera::lower

#include "dsl/lower/lower.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/lower/barriers.hpp"
#include "dsl/lower/global_order.hpp"
#include "dsl/lower/name_shared.hpp"
#include "dsl/lower/plan.hpp"
#include "dsl/lower/tile_code.hpp"

namespace tessera::lower {

namespace {

/// Pass: a place in the block's shared memory for every tile, in order, each at a multiple of 128 bytes.
void place_shared_tiles(ir::Program& program, const Target& target) {
    std::int64_t next = 0;
    for (ir::SharedTile& tile : program.shared) {
        tile.byte_offset = next;
        const std::int64_t bytes = (tile.shape.count() * bits_of(tile.type) + 7) / 8;
        next += (bytes + 127) / 128 * 128;
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
    choose_layouts(recorded, target, plan);
    plan.ordered = tensors_to_order(recorded, target, plan);
    ir::Program program = TileCode(recorded, target, plan).run();
    drop_needless_barriers(program, plan.ordered);
    name_shared_expressions(program);
    place_shared_tiles(program, target);
    return program;
}

}  // namespace tessera::lower

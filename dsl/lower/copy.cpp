#include "dsl/lower/tile_code.hpp"

namespace tessera::lower {

/// Every vector is started by one thread, the one that a load of the tile by the same vectors would give it to.
void TileCode::copy_piece(const ir::Copy& copy) {
    int axis = -1, vector = 1;
    const Layout layout = copy_layout(in_, copy, place_, target_, axis, vector);
    Iteration it(layout, e_, in_.threads);
    const Run run = run_along(it, it.root[static_cast<std::size_t>(axis)], vector);
    const Address from = address(copy.from, it, memory_name(copy.from));
    const Address to = address(copy.to, it, memory_name(copy.to));
    const int lanes = static_cast<int>(run.length);
    in_loops(it, [&] {
        it.each_constant(run.digits, [&] {
            set_lane(it, run, 0);
            emit(ir::CopyVector{access(copy.from, it, from, axis, lanes, false),
                                access(copy.to, it, to, axis, lanes, true)});
        });
    });
}

}  // namespace tessera::lower

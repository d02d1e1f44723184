#include <algorithm>

#include "dsl/ir/walk.hpp"
#include "dsl/lower/tile_code.hpp"

namespace tessera::lower {

/// Every vector or row is started by one thread: a vector by the one that a load of the tile by the same vectors would
/// give it to.
void TileCode::copy_piece(const ir::Copy& copy) {
    if (copy.tensor) return copy_box(copy);
    int axis = -1, vector = 1;
    const Layout layout = copy_layout(in_, copy, place_, target_, axis, vector);
    const Ref stage = copy.stage ? e_.narrow(scalar(copy.stage)) : nullptr;
    Iteration it(layout, e_, threads_);
    const Run run = run_along(it, it.root[static_cast<std::size_t>(axis)], vector);
    const Address from = address(copy.from, it, memory_name(copy.from));
    const Address to = address(copy.to, it, memory_name(copy.to));
    const int lanes = static_cast<int>(run.length);
    in_loops(it, [&] {
        it.each_constant(run.digits, [&] {
            set_lane(it, run, 0);
            emit(ir::CopyVector{access(copy.from, it, from, axis, lanes, false),
                                access(copy.to, it, to, axis, lanes, true), copy.mbarriers, stage});
        });
    });
}

/// What the mbarriers have counted all threads may see; of their own start they learn by a barrier.
void TileCode::wait(const ir::WaitCopies& w) {
    if (w.mbarriers < 0) return emit(ir::WaitCopies{w.pending});
    emit(ir::Barrier{});
    emit(ir::WaitCopies{0, w.mbarriers, e_.narrow(scalar(w.stage)), e_.narrow(scalar(w.parity)), w.first_warp});
}

/// A condition, the last of the list, that starts copies and touches no other memory: the barrier that the copies need
/// stands ahead of it, so that it orders what comes after as well, whether or not there is something to copy.
void TileCode::hoist_barrier(ir::Body& body) const {
    ir::Body& inner = body.back().as<ir::For>()->body;
    bool copies = false, others = false;
    ir::for_each_statement(inner, [&](const ir::Statement& s) {
        copies = copies || s.as<ir::CopyVector>() || s.as<ir::CopyBox>();
        others = others || s.as<ir::LoadVector>() || s.as<ir::StoreVector>() || s.as<ir::AtomicAdd>() ||
                 s.as<ir::WarpgroupMma>();
    });
    const auto first =
        std::find_if(inner.begin(), inner.end(), [](const ir::Statement& s) { return s.as<ir::Barrier>() != nullptr; });
    if (!copies || others || first == inner.end()) return;
    ir::Statement barrier = std::move(*first);
    inner.erase(first);
    body.insert(body.end() - 1, std::move(barrier));
}

}  // namespace tessera::lower

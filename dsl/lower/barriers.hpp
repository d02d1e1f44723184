#pragma once

#include "dsl/lower/plan.hpp"

namespace tessera::lower {

/// Pass: a barrier stands ahead of every group of accesses to the tensors and shared tiles that need it
/// (Plan::ordered); those that order nothing are dropped. A group is what follows a barrier up to the next: one load,
/// or one store, of a tile. A barrier stays if its group reads what was written, or writes what was read or written,
/// since the last barrier that stays, in this iteration of its loops or the one before. Shared tiles have their places
/// by now: tiles that share one are one memory.
void drop_needless_barriers(ir::Program& program, const Plan& plan);

}  // namespace tessera::lower

#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::lower {

/// Pass: the copy engine and tensor cores reach shared memory by another path than the threads do. Where threads have
/// stored to a tile that is copied to in bulk, or that products read in place, a fence stands ahead of the next
/// barrier, arrival or copy, so that the stores come first.
void fence_other_paths(ir::Program& program);

}  // namespace tessera::lower

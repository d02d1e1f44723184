#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::lower {

/// Pass: the copy engine and tensor cores reach shared memory by another path than the threads do. Where threads have
/// stored to a tile that is copied to in bulk, to a tensor that is copied from, or that products read in place, or have
/// waited for what they copied there by vectors, a fence stands ahead of the next barrier, arrival or copy, so that
/// this comes first.
void fence_other_paths(ir::Program& program);

}  // namespace tessera::lower

#pragma once

#include "dsl/base/target.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::lower {

/// Turns a recorded program into what one thread of `target` does. The passes stand in lower.cpp, in order.
/// Errors: UsageError on the writer's line for what cannot be lowered.
ir::Program lower(const ir::Program& recorded, const Target& target);

}  // namespace tessera::lower

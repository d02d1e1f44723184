#pragma once

#include <vector>

#include "dsl/lower/plan.hpp"

namespace tessera::lower {

/// Pass: by tensor and by shared tile, whether a block must order its own accesses to it by barriers. Not what is only
/// read; nor what is only added to; nor what is only scattered to; nor where every element is touched by one thread
/// alone, in the order that the kernel says: all pieces have one size and one layout, and begin at multiples of their
/// extents. Blocks among each other are the writer's concern.
void choose_order(const ir::Program& program, const Target& target, Plan& plan);

}  // namespace tessera::lower

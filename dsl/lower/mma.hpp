#pragma once

#include "dsl/base/layout.hpp"
#include "dsl/lower/plan.hpp"

namespace tessera::lower {

/// How the operands and the result of a product lie, so that its instructions find their words where they are; empty
/// for an operand that is read in place. Which row or place along K an element has in an instruction is free, as long
/// as both operands agree: so each thread holds runs of up to 8 neighbours. Where b is read in place, memory gives the
/// order along K. Errors: UsageError if the warps of so many threads do not divide the result.
struct MmaLayouts {
    Layout a, b, c;
};
MmaLayouts mma_layouts(const Plan& plan, const ir::Node& mma, int threads);

/// The same for instructions of four warps.
MmaLayouts warpgroup_mma_layouts(const Plan& plan, const ir::Node& mma, int threads);

}  // namespace tessera::lower

#pragma once

#include "dsl/base/layout.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::lower {

/// How the operands and the result of a product lie, so that its instructions find their words where they are. Which
/// row or place along K an element has in an instruction is free, as long as both operands agree: so each thread holds
/// runs of up to 8 neighbours. Errors: UsageError if the block's warps do not divide the result.
struct MmaLayouts {
    Layout a, b, c;
};
MmaLayouts mma_layouts(const ir::Program& program, const ir::Node& mma);

}  // namespace tessera::lower

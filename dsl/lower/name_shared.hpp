#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::lower {

/// Pass: an expression with several users in one list of statements gets a name ahead of the first, so that it is
/// written and computed once. Index arithmetic stays in place where it is as short as a name. What all lanes of a warp
/// must come to gets one too where C++ would leave it out for some of them.
void name_shared_expressions(ir::Program& program);

}  // namespace tessera::lower

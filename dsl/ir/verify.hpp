#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::ir {

/// Checks every rule that a program of its stage must keep, whoever made it: tables, operand types and shapes, scopes,
/// memory accesses, register indices, uniform control. A program that passes can be lowered, printed, executed and
/// emitted. Errors: InternalError naming the rule, the statement and the node, and what is wrong.
void verify(const Program& program);

}  // namespace tessera::ir

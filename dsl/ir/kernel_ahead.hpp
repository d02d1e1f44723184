#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::ir {

/// The first statement ahead of the wait for the kernel ahead that does more to tensors than read inputs, not a loop
/// but what stands in it; null if there is none. Without a wait, all statements count.
const Statement* meets_kernel_ahead(const Program& program);

/// The wait stands once, at the top level, in a program for dependent launches and in no other, nor in a cooperative
/// one, and nothing ahead of it may meet the kernel ahead. Errors: InternalError naming the rule.
void verify_kernel_ahead(const Program& program);

}  // namespace tessera::ir

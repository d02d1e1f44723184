#pragma once

#include <string>

#include "dsl/ir/program.hpp"
#include "runtime/compiled.hpp"

namespace tessera::tool {

/// What a compiled kernel uses, a line each: registers, spills, shared memory, instructions (from the cubin and NVRTC's
/// log), warnings of the assembler, and the bank conflicts of each access to shared memory (from the layouts).
/// Errors: UsageError if the cubin is damaged.
std::string resources_text(const Compiled& compiled, const ir::Program& lowered);

}  // namespace tessera::tool

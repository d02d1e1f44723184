#pragma once

#include "dsl/host/code.hpp"
#include "dsl/host/numbering.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::host {

/// Flattens a lowered program: unrolled loops are written out, serial ones stay. `checked` keeps the coordinates of
/// every access and the tests for undefined words. Errors: InternalError for what the executor cannot run.
Code assemble(const ir::Program& lowered, bool checked);

/// Gives every value of `numbering` a place in the register file and writes the instructions into `code`. A register is
/// used again once its value has been read for the last time.
void allocate(const Numbering& numbering, int threads, Code& code);

}  // namespace tessera::host

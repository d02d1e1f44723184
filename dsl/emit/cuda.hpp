#pragma once

#include <string>

#include "dsl/base/target.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::emit {

struct CudaOptions {
    bool line_directives = true;  // #line to the writer's file
};

/// Prints a lowered program as one CUDA translation unit without includes, whose extern "C" kernel bears the program's
/// name. Parameters, in order: one pointer a tensor, then the scalars. Byte-for-byte deterministic.
std::string cuda_text(const ir::Program& lowered, const Target& target, const CudaOptions& options = {});

}  // namespace tessera::emit

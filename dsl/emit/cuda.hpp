#pragma once

#include <cstdint>
#include <string>

#include "dsl/base/target.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::emit {

struct CudaOptions {
    bool line_directives = true;  // #line to the writer's file
};

/// Prints a lowered program as one CUDA translation unit without includes, whose extern "C" kernel bears the program's
/// name. Parameters, in order: one pointer a tensor, then the scalars, each in its element's storage type.
/// Byte-for-byte deterministic. Errors: UsageError for a kernel name that is no CUDA identifier and for a cast that
/// CUDA lacks; InternalError for a program that is not a well-formed lowered one.
std::string cuda_text(const ir::Program& lowered, const Target& target, const CudaOptions& options = {});

/// What a launch of that text must give as dynamic shared memory, in bytes: 0 where the text declares its shared memory
/// itself, which it does up to 48 KiB.
std::int64_t dynamic_shared_bytes(const ir::Program& lowered);

}  // namespace tessera::emit

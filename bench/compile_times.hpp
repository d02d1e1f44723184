#pragma once

#include "dsl/base/target.hpp"

namespace tessera::bench {

/// Prints what it takes to make each kernel: record, lower and emit (median of 5), and all of it with NVRTC, once and
/// never from a cache. Needs no GPU. Errors: CompileError where there is no NVRTC.
int print_compile_times(const Target& target);

}  // namespace tessera::bench

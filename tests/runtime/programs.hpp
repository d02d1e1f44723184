#pragma once

#include <memory>

#include "dsl/ir/program.hpp"

// Programs built by hand, so that the run time is tested without the recording and lowering.

namespace tessera::test {

/// Lowered: y[i] = x[i] · factor for f32 [n], 128 threads a block; `factor` (f32) is given at the launch. `align`: of
/// x.
std::shared_ptr<ir::Program> scale_program(const char* name = "scale", int align = 4);

/// Only a signature, for the binding of arguments:
///   tokens  dim                      pitch  dim, multiple of 8
///   eps f32, steps i32, flag bool    given at the launch
///   x   bf16 [tokens, 256]                         strides [pitch, 1], 16-byte aligned, input
///   y   e4m3 [tokens, 256]                         dense, output
///   sf  f32  [tokens, (tokens + 127) / 128]        dense, output
///   scale u8, packed [tokens, 6]: 4 bytes a word, words 4 · tokens apart, input
/// grid [(tokens + 3) / 4, 2]
std::shared_ptr<ir::Program> cast_signature();

}  // namespace tessera::test

#pragma once

#include "dsl/ir/program.hpp"

// Lowered programs of the kind that real kernels become.

namespace tessera::test {

/// bf16 [tokens, 1024] to e4m3 with one f32 scale a group of 128: four rows a block, 16-byte loads, 8-byte stores.
ir::Program cast_sample();
/// A 64 × 64 tile of 2-byte elements turned through a swizzled shared tile.
ir::Program transpose_sample();
/// In-place f32 rows in a serial loop, with a sum over the warp.
ir::Program normalize_sample();
/// Names that clash, every kind of literal, parentheses, comments.
ir::Program spelling_sample();

}  // namespace tessera::test

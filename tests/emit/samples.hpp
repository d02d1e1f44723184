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
/// Everything that packed formats need: bf16 and f32 to e2m1, e2m1 to bf16, f32 and e4m3, f32 to and from e5m6, with
/// accesses of several widths, predicates and fills.
ir::Program packed_sample();
/// Names that clash, every kind of literal, parentheses, comments.
ir::Program spelling_sample();

}  // namespace tessera::test

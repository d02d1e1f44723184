#pragma once

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"

// Transposition of the last two axes: bits are moved, never interpreted.

namespace tessera::transpose {

/// out[b, n, m] = x[b, m, n]. x: (B, M, N) of any 1-, 2- or 4-byte element type, any sizes ≥ 0, inner stride 1, any row
/// and batch strides ≥ 0. Gives (B, N, M), dense. Sizes are launch-time numbers: a new one compiles nothing. Errors:
/// UsageError naming the argument, before anything is allocated or launched.
Tensor batched_transpose(const Stream& stream, const TensorView& x);
/// The same into a given dense tensor.
void batched_transpose(const Stream& stream, const TensorView& x, const TensorView& out);

/// out[n, m] = x[m, n], otherwise as batched_transpose.
Tensor transpose(const Stream& stream, const TensorView& x);
void transpose(const Stream& stream, const TensorView& x, const TensorView& out);

/// The kernel itself, for elements of 1, 2 or 4 bytes. aligned: both sides, strides and bases are multiples of 16
/// bytes.
Program batched_transpose_program(int element_bytes, bool aligned = true);

}  // namespace tessera::transpose

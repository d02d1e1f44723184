#pragma once

#include "kernels/check.hpp"

// What the kernels that move rows share: how rows are cut into tiles, and the checks of their arguments.

namespace tessera::moe {

/// A block's tile of rows × cols elements, and its threads.
struct RowTile {
    std::int64_t rows, cols;
    int threads;
};

/// Rows of `length` elements that move in vectors of `vector`: as little padding as a power of two of lanes allows, at
/// most `most` vectors a thread, several rows a block if they are short.
RowTile row_tile(std::int64_t length, std::int64_t vector, std::int64_t most = 10);

/// Errors: UsageError unless the matrix has inner stride 1 and a row stride ≥ 0 and lies on the stream's device.
void check_rows(const char* function, const char* name, const Stream& stream, const TensorView& x);
/// Errors: UsageError unless token_topk_to_pos is i32 (tokens, K ≥ 1) with inner stride 1.
void check_positions(const char* function, const Stream& stream, const TensorView& positions, std::int64_t tokens);

/// A checked matrix as kernels take it: strides that mean nothing, of extents of 1, are made multiples of 16.
TensorView with_pitch(const TensorView& x);

/// The largest power of two, at most 16, that divides the addresses and row pitches of all these matrices, in bytes.
int common_alignment(std::initializer_list<TensorView> matrices);

}  // namespace tessera::moe

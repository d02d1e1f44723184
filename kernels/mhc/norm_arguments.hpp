#pragma once

#include "kernels/mhc/arguments.hpp"

// The host side of norm_fn and pre_big_fuse: a token's residual seen as one row of K = m · h values.

namespace tessera::mhc {

inline constexpr std::int64_t most_norm_streams = 4;

/// The residual as (tokens, K), and what its extents say.
struct ResidualRows {
    TensorView rows;
    std::int64_t tokens, m, h, inner;
};
/// Errors: UsageError unless it is dense BF16 (…, m, h) that begins at a multiple of 16 bytes, with 1 ≤ m ≤ 4 and K a
/// multiple of 64.
ResidualRows residual_rows(const char* function, const char* name, const Stream& stream, const TensorView& residual);
/// The tensor, seen as (tokens, K), of a residual's gradient. Errors: UsageError.
TensorView like_rows(const char* function, const char* name, const Stream& stream, const TensorView& t,
                     const ResidualRows& r);
/// The rows of fn, J. Errors: UsageError unless it is dense f32 (J, K) at a multiple of 16 bytes, 1 ≤ J ≤ 24.
std::int64_t weight_rows(const char* function, const char* name, const Stream& stream, const TensorView& fn,
                         std::int64_t inner);
/// S: what is asked for, or the plan's choice. Errors: UsageError unless it is from 0 to 64.
std::int64_t checked_splits(const char* function, const Stream& stream, std::int64_t asked, const ResidualRows& r);
/// Errors: UsageError unless it begins at a multiple of 16 bytes.
void check_aligned(const char* function, const char* name, const TensorView& t);

}  // namespace tessera::mhc

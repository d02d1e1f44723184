#pragma once

#include "kernels/quant/cast_input.hpp"
#include "kernels/quant/scale.hpp"
#include "kernels/quant_channel.hpp"

// What the casts down the tokens share. A block is one warp on a strip of 128 rows: a thread holds a few columns of
// every eighth row, or of sixteen neighbouring rows, so that a column's maximum is three shuffles and no barrier.

namespace tessera::quant {

constexpr std::int64_t strip_rows = 128;
constexpr std::int64_t strip_columns = 32;  // codes side by side fill a sector
constexpr int strip_threads = 32;

/// Extents [blocks of rows, 1, columns] of the absolute maxima of a strip cut into such blocks.
template <Element T>
Value<f32, 3> channel_maxima(const Value<T, 3>& strip) {
    return cast<f32>(reduce_max(abs(strip), axis<1>));
}

/// Errors: UsageError unless num_per_tokens is 32 or 128.
void check_channel_options(const char* function, const ChannelCastOptions& options);
/// Errors: UsageError unless `data` is E4M3 of these extents and `sf` FP32 (⌈rows / num_per_tokens⌉, hidden), both
/// dense.
void check_channel_outputs(const char* function, const TensorView& data, const Shape& extents, const TensorView& sf,
                           std::int64_t rows, std::int64_t hidden, const ChannelCastOptions& options);
Shape channel_scales(std::int64_t rows, std::int64_t hidden, const ChannelCastOptions& options);

/// A checked matrix with a row stride that means something, also for one row.
TensorView pitched(const TensorView& x);

}  // namespace tessera::quant

#pragma once

#include "kernels/quant.hpp"

// From fine blocks of E2M1 to coarser blocks of E4M3 with every value kept.

namespace tessera::quant {

struct LosslessOptions {
    std::int64_t block_rows = 128;     ///< a power of two, at least the input's
    std::int64_t block_columns = 128;  ///< a power of two, at least the input's
    ScaleLayout scale_layout = ScaleLayout::row_major;
};

/// E2M1 in blocks of a × b to E4M3 in coarser blocks: code · sf is the same number before and after. A block's new
/// scale is 2⁻⁶ times the largest of the scales that it joins; each old scale is a power of two and at least 2⁻¹¹ times
/// the largest. x: E2M1 (T, H), H even, blocks whose sides are powers of two. Gives data E4M3 (T, H), dense, and sf for
/// M = ⌈T / block_rows⌉, K = ⌈H / block_columns⌉. Errors: UsageError naming the argument, before anything is allocated
/// or launched.
///
/// What only the scales tell is an error at the next synchronisation (on the host of the call itself), naming the
/// scale: one that is no positive power of two or infinite; one that is too small beside the largest; a largest scale
/// below 2⁻¹²⁰, of which 2⁻⁶ could not be stored. A block of zeros may have any scale but one with a sign or a
/// mantissa.
Quantized per_block_cast_lossless(const Stream& stream, const QuantizedView& x, const LosslessOptions& options = {});
void per_block_cast_lossless(const Stream& stream, const QuantizedView& x, const TensorView& data, const TensorView& sf,
                             const LosslessOptions& options = {});

/// The kernel itself; see quant.hpp.
Program per_block_cast_lossless_program(std::int64_t hidden, const QuantizedLayout& from,
                                        const LosslessOptions& options = {}, bool aligned = true);

}  // namespace tessera::quant

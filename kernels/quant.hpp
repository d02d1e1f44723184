#pragma once

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"

// Quantization: values become codes of a narrow format, scaled by one factor a block. value ≈ code · sf.

namespace tessera::quant {

/// How the scale factors of M × K blocks lie in memory; Mp is M rounded up to a multiple of 4.
enum class ScaleLayout : std::uint8_t {
    row_major,     ///< f32 (M, K), strides (K, 1)
    column_major,  ///< f32 (M, K), strides (1, Mp): what bulk copies of column tiles need
    packed_ue8m0,  ///< i32 (M, ⌈K/4⌉), strides (1, Mp): byte k mod 4 of word k/4 is the exponent of block k
};

struct CastOptions {
    /// e4m3, e2m1, or e5m6 (plain input, whole rows only).
    Element format = e4m3;
    /// Channels that share a scale: 16, 32, 64, 128, or all of a row.
    std::int64_t num_per_channels = 128;
    ScaleLayout scale_layout = ScaleLayout::row_major;
    /// Scales are rounded up to powers of two; packed scales always are.
    bool round_sf = false;
    /// e5m6: codes below 2⁻¹⁴ are rounded to nearest even like all others; see per_token_cast.
    bool round_subnormals = false;
};

struct BlockCastOptions {
    Element format = e4m3;             ///< e4m3 or e2m1
    std::int64_t block_rows = 128;     ///< 32 or 128
    std::int64_t block_columns = 128;  ///< 32 or 128
    ScaleLayout scale_layout = ScaleLayout::row_major;
    bool round_sf = false;
};

/// How the scales of quantized input lie and what they cover.
struct QuantizedLayout {
    ScaleLayout scale_layout = ScaleLayout::row_major;
    std::int64_t block_rows = 1;
    std::int64_t block_columns = 128;
};

/// Quantized input: a dense matrix of E4M3, E2M1 or E5M6 codes, whose extents count values, and the scale of every
/// block. sf: f32 (M, K) row-major or column-major, or i32 (M, ⌈K/4⌉) packed; the free stride may exceed the minimum.
struct QuantizedView {
    TensorView data;
    TensorView sf;
    ScaleLayout scale_layout = ScaleLayout::row_major;
    std::int64_t block_rows = 1;
    std::int64_t block_columns = 128;
    QuantizedLayout layout() const { return {scale_layout, block_rows, block_columns}; }
};

/// Codes and their scale factors, from a cast in one piece of memory. Padding of the scales (rows up to Mp, bytes past
/// K) is 0.
struct Quantized {
    Tensor data;
    Tensor sf;
};

/// Quantizes each row in groups of channels: one scale for `num_per_channels` values, the last group of a row may be
/// narrower. With largest = 448 (e4m3), 6 (e2m1) or 65024 (e5m6): amax = max |x| of the group, at least 1e-4 (e2m1:
/// 6 · 2⁻¹²⁶); sf = amax / largest, or the next power of two; code = nearest(x · inv) with inv = largest / amax or
/// 1 / sf. x: BF16 or FP32 (T, H), T ≥ 0, H ≥ 1 and a multiple of the values that share bytes (e2m1 2, e5m6 8), any row
/// stride ≥ 0, inner stride 1. Gives data (T, H), dense, and sf for M = T, K = ⌈H / num_per_channels⌉. Errors:
/// UsageError naming the argument, before anything is allocated or launched.
///
/// Not finite: NaN does not enter amax and becomes the NaN code of e4m3, +6 in e2m1, −0 in e5m6. An infinity makes sf
/// infinite (byte 255) and inv 0: its finite neighbours become zeros of their signs and itself what NaN becomes.
/// Rounding: to nearest, ties to even, saturating, but for e5m6 codes of |x · inv| < 2⁻¹⁴: these are cut off, and the
/// 17 low bits of the FP32 product may add a unit of 2⁻²⁰, as the kernels do that these codes are exchanged with: 0.75,
/// 1.5, 3.5 and 62.75 units give 0, 1, 3 and 62. With round_subnormals they give 1, 2, 4 and 63.
Quantized per_token_cast(const Stream& stream, const TensorView& x, const CastOptions& options = {});
/// The same into given tensors: `data` dense; `sf` of exactly these extents, whose column stride may exceed Mp by
/// multiples of 4. Column-major and packed scales need a base aligned to 16 bytes and memory for Mp rows.
void per_token_cast(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                    const CastOptions& options = {});

/// Only the scales: nothing else is written.
Tensor per_token_cast_with_sf_only(const Stream& stream, const TensorView& x, const CastOptions& options = {});
void per_token_cast_with_sf_only(const Stream& stream, const TensorView& x, const TensorView& sf,
                                 const CastOptions& options = {});

/// Only the codes, with scales that are given: code = nearest(x · (1 / sf)), sf as it is. sf: FP32 (T, ⌈H /
/// num_per_channels⌉), dense. Format: e4m3 or e2m1, that of `data` where it is given.
Tensor per_token_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                          std::int64_t num_per_channels = 128, Element format = e4m3);
void per_token_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                        const TensorView& data, std::int64_t num_per_channels = 128);

/// per_token_cast of input that is quantized already: x̂ = code · sf, the factors combined before they meet the code:
/// y = code · (sf · inv). x: E4M3 or E2M1 with scales of any blocks; formats: e4m3 and e2m1.
/// In a group of zeros inv is so large that sf · inv can overflow; its codes are those of NaN then. For e2m1 that takes
/// a given scale of 4, and is harmless: +6 under a new scale of 2⁻¹²⁶. For e4m3 it takes 2¹⁰⁶.
Quantized per_token_cast(const Stream& stream, const QuantizedView& x, const CastOptions& options = {});
void per_token_cast(const Stream& stream, const QuantizedView& x, const TensorView& data, const TensorView& sf,
                    const CastOptions& options = {});

/// Quantizes in blocks of rows × columns, partial at the right and bottom edges; otherwise as per_token_cast, with
/// M = ⌈T / block_rows⌉ and K = ⌈H / block_columns⌉.
Quantized per_block_cast(const Stream& stream, const TensorView& x, const BlockCastOptions& options = {});
void per_block_cast(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                    const BlockCastOptions& options = {});

/// The parts of per_block_cast, as those of per_token_cast: only the scales, and only the codes for given scales, FP32
/// (M, K), dense.
Tensor per_block_cast_with_sf_only(const Stream& stream, const TensorView& x, const BlockCastOptions& options = {});
void per_block_cast_with_sf_only(const Stream& stream, const TensorView& x, const TensorView& sf,
                                 const BlockCastOptions& options = {});
Tensor per_block_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                          std::int64_t block_rows = 128, std::int64_t block_columns = 128,
                                          Element format = e4m3);
void per_block_cast_with_precomputed_sf(const Stream& stream, const TensorView& x, const TensorView& sf,
                                        const TensorView& data, std::int64_t block_rows = 128,
                                        std::int64_t block_columns = 128);

/// Dequantizes: out = code · sf in FP32, rounded once more for BF16. out: BF16 or FP32 (T, H), dense. x: any format and
/// blocks of any extents ≥ 1. A packed scale is the FP32 number of its exponent bits: byte 0 reads as 0, byte 255 as +∞
/// (so that a zero under it becomes NaN).
Tensor cast_back(const Stream& stream, const QuantizedView& x, Element out = bf16);
void cast_back(const Stream& stream, const QuantizedView& x, const TensorView& out);

/// The kernels themselves, as recorded for inputs of `in` with `hidden` columns. aligned: rows begin at multiples of 16
/// bytes; otherwise elements are moved one by one.
Program per_token_cast_program(Element in, std::int64_t hidden, const CastOptions& options = {}, bool aligned = true);
Program per_token_cast_program(Element in, const QuantizedLayout& from, std::int64_t hidden,
                               const CastOptions& options = {}, bool aligned = true);
Program per_token_cast_with_sf_only_program(Element in, std::int64_t hidden, const CastOptions& options = {},
                                            bool aligned = true);
Program per_token_cast_with_precomputed_sf_program(Element in, std::int64_t hidden, std::int64_t num_per_channels = 128,
                                                   Element format = e4m3, bool aligned = true);
Program cast_back_program(Element in, std::int64_t hidden, const QuantizedLayout& from = {}, Element out = bf16,
                          bool aligned = true);
Program per_block_cast_program(Element in, std::int64_t hidden, const BlockCastOptions& options = {},
                               bool aligned = true);
Program per_block_cast_with_sf_only_program(Element in, std::int64_t hidden, const BlockCastOptions& options = {},
                                            bool aligned = true);
Program per_block_cast_with_precomputed_sf_program(Element in, std::int64_t hidden, std::int64_t block_rows = 128,
                                                   std::int64_t block_columns = 128, Element format = e4m3,
                                                   bool aligned = true);

}  // namespace tessera::quant

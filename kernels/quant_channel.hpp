#pragma once

#include <optional>

#include "kernels/quant.hpp"

// Quantization down the tokens: one scale for a channel of `num_per_tokens` rows. Codes are E4M3.

namespace tessera::quant {

struct ChannelCastOptions {
    std::int64_t num_per_tokens = 128;  ///< rows that share a scale: 32 or 128; the last block may have fewer
    bool round_sf = false;              ///< scales are rounded up to powers of two
};

/// Quantizes each channel in blocks of rows; as per_token_cast otherwise. x: BF16 or FP32 (T, H), T ≥ 0, H ≥ 1, any row
/// stride ≥ 0, inner stride 1. Gives data E4M3 (T, H) and sf FP32 (⌈T / num_per_tokens⌉, H), both dense.
/// Errors: UsageError naming the argument, before anything is allocated or launched.
Quantized per_channel_cast(const Stream& stream, const TensorView& x, const ChannelCastOptions& options = {});
void per_channel_cast(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                      const ChannelCastOptions& options = {});

/// The same with the codes transposed: data E4M3 (H, T); sf is not.
Quantized per_channel_cast_and_transpose(const Stream& stream, const TensorView& x,
                                         const ChannelCastOptions& options = {});
void per_channel_cast_and_transpose(const Stream& stream, const TensorView& x, const TensorView& data,
                                    const TensorView& sf, const ChannelCastOptions& options = {});

struct FusedChannelCastOptions : ChannelCastOptions {
    /// i32 (T_out), dense: row p of the result is row pos_to_token[p] of x; a negative entry is a row of zeros. Entries
    /// ≥ T are never read from and count as rows of zeros, too; the first is an error of the next synchronisation, on
    /// the host of the call itself. Absent: rows in order.
    std::optional<TensorView> pos_to_token = {};
};

/// The same with rows in any order. Gives data (T_out, H) and sf (⌈T_out / num_per_tokens⌉, H); blocks are counted in
/// rows of the result.
Quantized per_channel_cast_fused(const Stream& stream, const TensorView& x,
                                 const FusedChannelCastOptions& options = {});
void per_channel_cast_fused(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                            const FusedChannelCastOptions& options = {});

/// The same for E4M3 input with scales: y = (code · sf) · inv, each product rounded.
Quantized per_channel_cast_fused(const Stream& stream, const QuantizedView& x,
                                 const FusedChannelCastOptions& options = {});
void per_channel_cast_fused(const Stream& stream, const QuantizedView& x, const TensorView& data, const TensorView& sf,
                            const FusedChannelCastOptions& options = {});

/// The kernels themselves. gather: rows come by pos_to_token. aligned: rows of x begin at multiples of 16 bytes (and
/// those of the transposed codes); otherwise elements are moved one by one.
Program per_channel_cast_program(Element in, std::int64_t hidden, const ChannelCastOptions& options = {},
                                 bool gather = false, bool aligned = true);
Program per_channel_cast_program(const QuantizedLayout& from, std::int64_t hidden,
                                 const ChannelCastOptions& options = {}, bool gather = false, bool aligned = true);
Program per_channel_cast_and_transpose_program(Element in, std::int64_t hidden, const ChannelCastOptions& options = {},
                                               bool aligned = true);

}  // namespace tessera::quant

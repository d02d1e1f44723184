#pragma once

#include <optional>

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"

// Mixture of experts: moving rows of tokens into the expert-major buffer and summing them back.
//
// T tokens, K top-k slots, H channels, P rows of the expert-major ("expanded") buffer. token_topk_to_pos: i32 (T, K),
// the row of the buffer that a token's slot went to, −1 for none; its rows may be strided. pos_to_expert: i32 (P),
// dense, negative for padding rows. Positions outside of the buffer are never read or written, and are errors: of the
// next synchronisation, on the host of the call itself, naming the token and its slot (Stream::synchronize).

namespace tessera::moe {

/// A row of the buffer for every slot of every token: out[pos] = x[t] for each pos = token_topk_to_pos[t, k] ≥ 0, bit
/// by bit; rows of padding become zero bits, also without tokens; rows that are neither stay as they are. x: (T, H) of
/// any element of 1, 2 or 4 bytes, inner stride 1, any row stride ≥ 0. out: (P, H), dense. Errors: UsageError naming
/// the argument, before anything is allocated or launched.
Tensor expand_to_fused(const Stream& stream, const TensorView& x, const TensorView& token_topk_to_pos,
                       const TensorView& pos_to_expert);
void expand_to_fused(const Stream& stream, const TensorView& x, const TensorView& token_topk_to_pos,
                     const TensorView& pos_to_expert, const TensorView& out);

/// Rows of the buffer and their scales.
struct Expanded {
    Tensor data;
    Tensor sf;
};

struct ScaledExpandOptions {
    /// Channels that share a scale: Hs = ⌈H / num_per_channels⌉ scales a row, or ⌈Hs / 4⌉ words of packed ones.
    std::int64_t num_per_channels = 128;
    /// Output scales with strides (1, P rounded up to a multiple of 4) instead of (Hs, 1). Packed scales need it.
    bool column_major_sf = false;
};

/// The same for quantized rows: scales go where their row goes. x_sf: f32 (T, Hs), or i32 words of four packed
/// exponents; any strides ≥ 0. Gives sf of x_sf's type, (P, columns of x_sf); padding rows and what rounding P up adds
/// to a column are zero bits.
Expanded expand_to_fused_with_sf(const Stream& stream, const TensorView& x, const TensorView& x_sf,
                                 const TensorView& token_topk_to_pos, const TensorView& pos_to_expert,
                                 const ScaledExpandOptions& options = {});
/// The same into given tensors; a column of column-major `out_sf` may be longer than the least, by multiples of 4.
void expand_to_fused_with_sf(const Stream& stream, const TensorView& x, const TensorView& x_sf,
                             const TensorView& token_topk_to_pos, const TensorView& pos_to_expert,
                             const TensorView& out, const TensorView& out_sf, const ScaledExpandOptions& options = {});

struct ReduceOptions {
    std::optional<TensorView> topk_weights;  ///< f32 (T, K), inner stride 1; absent: 1
    std::optional<TensorView> x_sf;          ///< f32 (P), dense: one scale for each row of x
    bool to_e4m3 = false;                    ///< output e4m3 instead of x's type
    std::optional<TensorView> sf;            ///< f32 (1), read on the device; only with to_e4m3
};

/// out[t] = sf · Σ_k w[t, k] · x_sf[pos] · x[pos] over the slots with pos = token_topk_to_pos[t, k] ≥ 0, k ascending:
/// acc = fma(x, w · x_sf, acc) in FP32 from +0, then one product with sf, then one rounding. Rows of x that no slot
/// names are not read. x: BF16 or FP32 (P, H), inner stride 1, any row stride ≥ 0. out: (T, H), dense. Errors:
/// UsageError naming the argument, before anything is allocated or launched.
Tensor reduce_fused(const Stream& stream, const TensorView& x, const TensorView& token_topk_to_pos,
                    const ReduceOptions& options = {});
void reduce_fused(const Stream& stream, const TensorView& x, const TensorView& token_topk_to_pos, const TensorView& out,
                  const ReduceOptions& options = {});

/// How scales travel with the rows; as vectors where rows of both x_sf and out_sf begin at multiples of 16 bytes.
enum class ExpandedScales : std::uint8_t { none, row_major, row_major_vectors, column_major };

/// The kernels themselves. Rows are moved as `row_words` words of `word_bytes` (1, 2 or 4) that begin at multiples of
/// `align` bytes (word_bytes … 16). scale_words: columns of x_sf.
Program expand_to_fused_program(int word_bytes, std::int64_t row_words, std::int64_t topk, int align,
                                ExpandedScales scales = ExpandedScales::none, std::int64_t scale_words = 0);
/// Which optional inputs reduce_fused reads.
struct ReduceForm {
    bool weights = true, x_sf = false, to_e4m3 = false, sf = false;
};
Program reduce_fused_program(Element in, std::int64_t hidden, std::int64_t topk, const ReduceForm& form = {},
                             bool aligned = true);

}  // namespace tessera::moe

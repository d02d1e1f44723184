#pragma once

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"

// Engram: n-gram hashes into embedding tables, and the gate that adds what was looked up to the residual streams.
//
// T tokens, C hyper-connection heads, H channels, all any number from 1 on (T from 0). Tensors are dense unless said
// otherwise. Functions that return tensors allocate them; the others write into given ones. Errors: UsageError naming
// the argument, before anything is allocated or launched.

namespace tessera::engram {

/// The product of the two norm weights, which the gate takes: bf16 (C, H) each, f32 (C, H), exact unless it leaves the
/// range of f32.
Tensor fused_weight(const Stream& stream, const TensorView& weight_hidden, const TensorView& weight_embed);
void fused_weight(const Stream& stream, const TensorView& weight_hidden, const TensorView& weight_embed,
                  const TensorView& out);

/// L layers, N ≥ 2 columns of an n-gram, E tables for each length 2 … N.
struct HashInputs {
    TensorView ngram_token_ids;  // i32 (T, N)
    TensorView multipliers;      // i64 (L, N)
    TensorView vocab_sizes;      // i32 (L, N − 1, E), each at least 1
    TensorView offsets;          // i32 (L, (N − 1) · E)
};
/// Rows of the concatenated tables, i32 (L, T, (N − 1) · E): with h = (id₀ · m₀) xor … xor (idₙ · mₙ) in 64 bits that
/// wrap, column (n − 1) · E + j is h floor-modulo the size of table j for length n + 1, plus its offset in 32 bits that
/// wrap. A size below 1 is told at the next synchronisation, and its column holds the offset.
Tensor hash(const Stream& stream, const HashInputs& inputs);
void hash(const Stream& stream, const HashInputs& inputs, const TensorView& out);

/// What goes through the gate. k and v may be slices of wider tensors: their last stride is 1, the others are free.
struct GateInputs {
    TensorView hidden_states;  // bf16 (T, C, H)
    TensorView k;              // bf16 (T, C, H)
    TensorView v;              // bf16 (T, H), for all heads
    TensorView weight_fused;   // f32 (C, H), of fused_weight
};
struct GateOptions {
    float eps = 1e-20f;         ///< added to mean squares, ≥ 0
    float clamp_value = 1e-6f;  ///< the least |s|, ≥ 0
    bool save = true;           ///< give what gate_backward takes; the output has the same bits either way
};
/// Without `save`, only `output` is there.
struct GateOutputs {
    Tensor output;                           // bf16 (T, C, H)
    Tensor dot, gate_score, rstd_x, rstd_k;  // f32 (T, C)
};
struct GateOutputViews {
    TensorView output;
    TensorView dot{}, gate_score{}, rstd_x{}, rstd_k{};
};
/// output = x + g · v, where g is the sigmoid of the signed square root of the normalised dot product of x and k:
///     dot = Σ x · w · k, rstd_x = 1 / √(Σ x² / H + eps), rstd_k likewise, s = dot · rstd_x · rstd_k / √H,
///     gate_score = 1 / (1 + e^−q), q = √max(|s|, clamp_value) with the sign of s.
/// A dot of +0 counts as positive and one of −0 as negative, so that a row of zeros has the gate 0.50025 with a clamp
/// of 1e-6. NaN in s makes the whole row NaN.
GateOutputs gate_forward(const Stream& stream, const GateInputs& inputs, const GateOptions& options = {});
void gate_forward(const Stream& stream, const GateInputs& inputs, const GateOutputViews& outputs,
                  const GateOptions& options = {});

struct BackwardInputs {
    TensorView grad_out;                         // bf16 (T, C, H)
    GateInputs forward;                          // as gate_forward took them
    TensorView dot, gate_score, rstd_x, rstd_k;  // f32 (T, C), from gate_forward
};
struct BackwardOptions {
    float clamp_value = 1e-6f;  ///< as in the forward
    /// P, the blocks that share the tokens out, at most 65,536; 0: one for each multiprocessor. Equal P, equal bits.
    std::int64_t blocks = 0;
};
struct BackwardOutputs {
    Tensor grad_hidden_states, grad_k;  // bf16 (T, C, H)
    Tensor grad_v;                      // bf16 (T, H)
    Tensor grad_w_partial;              // f32 (P, C, H): its sum over P is the gradient of weight_fused
};
struct BackwardOutputViews {
    TensorView grad_hidden_states, grad_k, grad_v;
    TensorView grad_w_partial;  // its first extent is P, unless the options name it
};
/// Gradients of gate_forward; grad_hidden_states holds the residual's share. Below the clamp the gate is flat: such a
/// head passes no gradient to x and k.
BackwardOutputs gate_backward(const Stream& stream, const BackwardInputs& inputs, const BackwardOptions& options = {});
void gate_backward(const Stream& stream, const BackwardInputs& inputs, const BackwardOutputViews& outputs,
                   const BackwardOptions& options = {});

struct WeightGradients {
    TensorView hidden, embed;  // f32 (C, H) each, added to; apart from each other in memory
};
/// hidden += W · weight_embed and embed += W · weight_hidden, where W is the sum over the rows of the partial gradient
/// of gate_backward: f32 (P, C, H), any P ≥ 1. The order of the sum is fixed. Weights: bf16 (C, H).
void grad_w_reduce(const Stream& stream, const TensorView& grad_w_partial, const TensorView& weight_hidden,
                   const TensorView& weight_embed, const WeightGradients& gradients);

/// The kernels themselves. aligned: all rows begin at multiples of 16 bytes.
Program fused_weight_program(bool aligned);
Program hash_program(std::int64_t columns, std::int64_t tables);
Program gate_forward_program(std::int64_t heads, std::int64_t hidden, bool save, bool aligned);
Program gate_backward_program(std::int64_t heads, std::int64_t hidden, bool aligned);
/// rows: P.
Program grad_w_reduce_program(std::int64_t rows, bool aligned);

}  // namespace tessera::engram

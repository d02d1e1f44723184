#pragma once

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"

// Mixture of experts: what happens to expert choices before and after the exchange of tokens. T tokens, K slots; −1 is
// the only legal negative id and means that the slot has no expert. Tensors are dense. Errors: UsageError naming the
// argument, before anything is allocated or launched.

namespace tessera::moe {

struct Normalized {
    Tensor denominator;  // f32 (T)
    Tensor weights;      // f32 (T, K)
};
/// Divides each row of weights by its sum: denominator = 1e-20 + w[0] + … + w[K − 1], in this order. weights: f32 (T,
/// K).
Normalized normalize_weight(const Stream& stream, const TensorView& weights);
void normalize_weight(const Stream& stream, const TensorView& weights, const TensorView& denominator,
                      const TensorView& normalized);

struct TensorParallel {
    std::int64_t num_experts;       ///< over all ranks
    std::int64_t num_ep_ranks = 1;  ///< all ranks, those of tensor parallelism included
    std::int64_t tp_rank = 0, num_tp_ranks = 1;
};
/// Keeps the experts that live on one rank of tensor parallelism and numbers them as if the ranks of a group were one:
/// with per = num_experts div num_ep_ranks and q = id div per, an id of another rank (q mod num_tp_ranks ≠ tp_rank)
/// becomes −1, another one (q div num_tp_ranks) · per + id mod per. indices: i64 (T, K). Gives i64 (T, K).
Tensor mask_indices_by_tp(const Stream& stream, const TensorView& indices, const TensorParallel& ranks);
void mask_indices_by_tp(const Stream& stream, const TensorView& indices, const TensorView& out,
                        const TensorParallel& ranks);

/// Overwrites with −1 what stands earlier in its row already; negative ids stay. group_indices: i64 (T, K), K ≤ 64,
/// in place; only repeats are written. num_groups: from 1 to 128.
void inplace_unique_group_indices(const Stream& stream, const TensorView& group_indices, std::int64_t num_groups);

/// How often each id stands in group_idx: i64 (T, K). −1, and what is not below num_groups, counts nowhere. Gives i32
/// (num_groups); num_groups: from 1 to 2^20.
Tensor group_count(const Stream& stream, const TensorView& group_idx, std::int64_t num_groups);
void group_count(const Stream& stream, const TensorView& group_idx, const TensorView& out);

/// Load of each expert for the balance loss: count · num_experts / (T · num_aux_topk), as one FP32 division of the
/// exact products; 1 for an even load. topk_idx: i64 (T, K). Gives f32 (num_experts), 0 without tokens.
Tensor aux_fi(const Stream& stream, const TensorView& topk_idx, std::int64_t num_experts, std::int64_t num_aux_topk);
void aux_fi(const Stream& stream, const TensorView& topk_idx, const TensorView& out, std::int64_t num_aux_topk);

/// The kernels themselves.
/// aligned: weights and normalized begin at multiples of 16 bytes.
Program normalize_weight_program(std::int64_t topk, bool aligned = true);
Program mask_indices_by_tp_program(std::int64_t per_rank, std::int64_t num_tp_ranks, bool aligned = true);
Program inplace_unique_group_indices_program(std::int64_t topk);
struct CountPlan {
    std::int64_t shared_groups;  ///< counters of a block, a power of two; 0: all blocks count in the result
    std::int64_t ids_at_once;    ///< that a block counts in a turn
};
/// ids: how many there are to count.
CountPlan count_plan(std::int64_t groups, std::int64_t ids);
/// Clears the counts, while group_count begins to count.
Program clear_counts_program();
/// aligned: ids begin at a multiple of 16 bytes.
Program group_count_program(const CountPlan& plan, bool aligned = true);
/// The loads of aux_fi out of the counts.
Program aux_fi_program();

}  // namespace tessera::moe

#pragma once

#include <optional>

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"

// Mixture of experts: from router logits to expert choices. T tokens, E experts, K top-k slots, G groups of M experts.
//
// Selections are ordered by (value descending, index ascending); −0 equals +0, −∞ is an ordinary smallest value, NaN
// comes last. So indices are distinct and in range whatever a row holds. Tensors are dense. Errors: UsageError naming
// the argument, before anything is allocated or launched.

namespace tessera::moe {

/// Indices of the `num_topk` largest scores of each row, first to last. scores: f32 (T, E), E ≤ 1024. Gives i64 (T, K),
/// 1 ≤ K ≤ 32, K ≤ E.
Tensor topk_gate(const Stream& stream, const TensorView& scores, int num_topk);
/// The same into a given tensor, whose second extent is K.
void topk_gate(const Stream& stream, const TensorView& scores, const TensorView& out);

struct GroupOptions {
    int num_topk_sum = 2;     ///< 1 or 2, at most M: a group counts as much as the sum of its so many best scores
    int num_topk_groups = 1;  ///< how many groups are given, at most G
};

/// The groups whose best scores have the largest sums, first to last. scores: f32 (T, G, M), G ≤ 32, G · M ≤ 1024. NaN
/// is passed over; a sum that is NaN counts as −∞. Gives i64 (T, num_topk_groups).
Tensor topk_sum_and_topk_group_idx(const Stream& stream, const TensorView& scores, const GroupOptions& options);
void topk_sum_and_topk_group_idx(const Stream& stream, const TensorView& scores, const TensorView& out,
                                 const GroupOptions& options);

/// The kernels themselves.
Program topk_gate_program(std::int64_t experts, int num_topk);
Program topk_sum_and_topk_group_idx_program(std::int64_t groups, std::int64_t members, const GroupOptions& options);

}  // namespace tessera::moe

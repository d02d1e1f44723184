#pragma once

#include <optional>
#include <string>

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

/// What a score is made of logits by, and what experts are ranked by; b is their bias.
enum class Scoring : std::uint8_t {
    sigmoid,       ///< s = 1 / (1 + e^−x), ranked by s + b
    sqrtsoftplus,  ///< s = √log(1 + e^x), for x > 20 √x; ranked by s + b
    softmax,       ///< s = e^(x − max) / Σ e^(x − max), ranked by x + b
};
/// "sigmoid", "sqrtsoftplus" or "softmax", in any case. Errors: UsageError.
Scoring scoring_of(const std::string& label);

struct GateOptions {
    int num_topk = 1;                    ///< K: routed slots, at most 32 together with the shared ones
    int num_groups = 0;                  ///< G, a divisor of E; 0: no groups
    int num_topk_groups = 0;             ///< groups that experts are taken from; G: all
    bool use_shared_as_routed = false;   ///< shared experts follow in slots K, K + 1 with weight 1; needs a map
    int num_shared_experts = 0;          ///< 1 or 2, if they do
    float routed_scaling_factor = 1.0f;  ///< multiplies the weights of routed slots
    Scoring scoring = Scoring::sigmoid;
    std::int64_t ep_rank = 0, num_ep_ranks = 1;  ///< of all ranks; ep_rank only picks replicas
    std::int64_t tp_rank = 0, num_tp_ranks = 1;
    std::optional<TensorView> mask;               ///< bool (T): false = the token is not routed
    std::optional<TensorView> fix_routing_mask;   ///< bool (T): true = its experts are those of unmapped_topk_idx
    std::optional<TensorView> to_physical_map;    ///< i32 (E + S, R): the replicas of each logical expert
    std::optional<TensorView> logical_count;      ///< i32 (E + S): how many of them there are, from 1 to R
    std::optional<TensorView> unmapped_topk_idx;  ///< i64 (T, K), any row stride, in and out: logical experts
};

struct Gated {
    Tensor topk_idx;      // i64 (T, K + S)
    Tensor topk_weights;  // f32 (T, K + S)
};
/// The whole gate of a layer: scores, the groups with the best sums of two, the experts with the best biased scores,
/// the weights s / (1e-20 + Σ s) · factor, replicas, and the share of one rank of tensor parallelism (see
/// mask_indices_by_tp). logits: f32 (T, E), bias: f32 (E). Tokens that are not routed get −1 and 0. Experts of other
/// ranks get −1 and keep their weight; an id that is fixed outside of [0, E), or a replica outside of the map, gets −1
/// and 0. A row of logits that are not finite gets some K distinct experts.
Gated top2_sum_gate(const Stream& stream, const TensorView& logits, const TensorView& bias, const GateOptions& options);
void top2_sum_gate(const Stream& stream, const TensorView& logits, const TensorView& bias, const TensorView& topk_idx,
                   const TensorView& topk_weights, const GateOptions& options);

/// The kernels themselves.
Program topk_gate_program(std::int64_t experts, int num_topk);
/// What specialises the gate; `replicas` is R, 0 without a map.
struct GateForm {
    std::int64_t experts, groups = 1, chosen_groups = 1, replicas = 0, shared = 0;
    int topk = 1;
    Scoring scoring = Scoring::sigmoid;
    std::int64_t per_rank = 1, num_tp_ranks = 1;
    bool mask = false, fixed = false, unmapped = false;
};
Program top2_sum_gate_program(const GateForm& form);
Program topk_sum_and_topk_group_idx_program(std::int64_t groups, std::int64_t members, const GroupOptions& options);

}  // namespace tessera::moe

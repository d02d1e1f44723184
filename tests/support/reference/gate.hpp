#pragma once

#include <cstdint>
#include <optional>
#include <vector>

// Gating and routing of a mixture of experts, by the book: one row after the other, sorts and loops.

namespace tessera::reference {

/// Places of the `count` first of the values: larger first, −0 as +0, NaN last, the lower index first among equals.
std::vector<std::int64_t> first_of(const std::vector<float>& values, std::int64_t count);

/// Groups of `members` values each, by the sum of their `best` (1 or 2) largest, first to last.
std::vector<std::int64_t> best_groups(const std::vector<float>& values, std::int64_t members, int best,
                                      std::int64_t count);

enum class Score { sigmoid, sqrtsoftplus, softmax };

struct GateRules {
    std::int64_t experts, topk, groups, chosen_groups, shared;
    Score score;
    float factor;
    std::int64_t ep_rank, num_ep_ranks, tp_rank, num_tp_ranks;
    std::int64_t replicas;                 // columns of the map; 0: none
    std::vector<std::int32_t> map, count;  // of experts + shared rows
    std::vector<float> bias;
};
struct GateRow {
    std::vector<std::int64_t> ids;       // topk + shared
    std::vector<double> weights;         // in double from scores in float
    std::vector<std::int64_t> unmapped;  // topk
    bool close = false;                  // keys around the last rank lie so near that another exp may swap them
};
/// Row `token`; `fixed`: its experts, if they are given.
GateRow gate_row(const GateRules& rules, const std::vector<float>& logits, std::int64_t token, bool routed,
                 const std::optional<std::vector<std::int64_t>>& fixed);

/// Section 6: what one rank of tensor parallelism calls an expert.
std::int64_t masked_by_tp(std::int64_t id, std::int64_t per, std::int64_t tp_rank, std::int64_t num_tp_ranks);

}  // namespace tessera::reference

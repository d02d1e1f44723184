#pragma once

#include <vector>

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor.hpp"

// Mixture of experts: where each slot of each token goes in expert-major order.

namespace tessera::moe {

struct MappingOptions {
    std::int64_t num_experts = 1;          ///< from 1 to 4096
    std::int64_t alignment = 1;            ///< every expert's range is a multiple of so many rows
    std::int64_t num_expanded_tokens = 0;  ///< P; 0: as many rows as needed, which costs a wait for the counts
    bool force_no_sync = false;            ///< with num_expanded_tokens = 0: P is 0, for slots without any expert
    /// One launch whose blocks wait for each other, where the shape allows it, or four; the result is the same.
    enum Plan : std::uint8_t { one_launch, four_launches } plan = one_launch;
};

/// Rows of the buffer: expert e has [expert_start[e], expert_end[e]), first its slots in ascending order, then padding.
/// pos_to_… hold −1 in padding rows, token_topk_to_pos in slots without an expert.
struct FusedMapping {
    Tensor pos_to_expert, pos_to_token, pos_to_token_topk;   // i32 (P)
    Tensor token_topk_to_pos;                                // i32 (T, K)
    Tensor expert_start, expert_end, num_tokens_per_expert;  // i32 (num_experts)
    std::vector<std::int32_t> num_tokens_per_expert_list;    // empty where P was given
};

/// Gives each slot with an expert a row of its own. topk_idx: i64 (T, K), dense, −1 or an expert; other ids count as
/// −1. The result depends on nothing but the arguments. No row beyond P is written. Errors: UsageError naming the
/// argument, before anything is allocated or launched.
FusedMapping get_fused_mapping(const Stream& stream, const TensorView& topk_idx, const MappingOptions& options);

/// The kernel of the one launch, and how it cuts the slots: a block has `threads` · `steps` slots in a row, `steps`
/// times 32 of them for a warp, sorts them by expert in shared memory, and waits for the counts of all blocks
/// to know the rows.
struct MappingPlan {
    std::int64_t wide = 0;  // experts, rounded up to a power of two; 0: four launches
    std::int64_t threads = 0, steps = 0, blocks = 0;
    std::int64_t most_blocks = 0;  // rounded up to a power of two: how many counts of others a block reads
};
/// With at least 128 multiprocessors one launch up to 458,752 slots for 256 experts, up to 163,840 for 1,024.
MappingPlan mapping_plan(std::int64_t slots, std::int64_t experts, std::int64_t multiprocessors);
Program map_slots_program(std::int64_t topk, const MappingPlan& plan);

/// Those of four, of many blocks, in the order in which they run. Slots fall into chunks, a warp each: count_slots
/// counts the slots of each (expert, chunk) and blanks the rows; scan_chunks sums them up over the chunks before;
/// scan_experts gives experts their ranges; place_slots goes through the slots of each chunk in order.
Program count_slots_program();
Program scan_chunks_program();
Program scan_experts_program(std::int64_t experts);
Program place_slots_program(std::int64_t topk);

}  // namespace tessera::moe

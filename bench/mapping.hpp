#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor.hpp"

namespace tessera::bench {

/// One MoE layer on one rank: tokens that reached it, their top-k slots, the slots among these that name one of its
/// experts. `valid` is what the reference's byte counts imply.
struct MoeSet {
    std::int64_t experts, topk, tokens, valid;
};

/// Positions in expert-major order, each expert's rounded up to a multiple of `align`.
struct Mapping {
    std::int64_t tokens, topk, positions;
    std::vector<std::int32_t> token_topk_to_pos, pos_to_expert, pos_to_token;

    Mapping(const MoeSet& set, std::int64_t align);
    Tensor slots_on(const Stream& stream) const;
    Tensor experts_on(const Stream& stream) const;
    /// Cut or padded with −1 to so many rows.
    Tensor tokens_on(const Stream& stream, std::int64_t rows) const;
    std::int64_t bytes() const { return 4 * (tokens * topk + positions); }
};

}  // namespace tessera::bench

#pragma once

#include <string>
#include <vector>

#include "tests/support/random.hpp"
#include "tests/support/reference/gate.hpp"

namespace tessera::test {

struct TopkCase {
    std::int64_t tokens, groups, members, topk;  // scores: tokens × groups · members
    int best;                                    // of a group; 0: no groups
    std::int64_t shift;                          // elements past a 256-byte boundary
    std::uint64_t seed;

    std::string text() const;
    std::vector<float> scores() const;  // with ties, zeros of both signs, infinities and NaN
};

struct GateCase {
    std::int64_t tokens, pitch;  // pitch of unmapped_topk_idx
    reference::GateRules rules;
    bool mask, fixed, unmapped;
    std::uint64_t seed;

    std::string text() const;
};

/// Ids of slots: −1, in range, and some that are not.
struct IdsCase {
    std::int64_t tokens, topk, groups, ranks, tp_ranks, tp_rank, shift;
    std::uint64_t seed;

    std::string text() const;
    std::vector<std::int64_t> ids() const;
};

/// Deterministic lists.
std::vector<TopkCase> topk_cases(int count, bool groups);
std::vector<GateCase> gate_cases(int count);
std::vector<IdsCase> ids_cases(int count);

}  // namespace tessera::test

#include "bench/mapping.hpp"

#include <random>

namespace tessera::bench {

namespace {

/// Which slots are taken: one a token, the rest anywhere; and by which expert.
std::vector<std::int32_t> experts_of_slots(const MoeSet& set, std::mt19937& random) {
    std::vector<std::int32_t> slots(static_cast<std::size_t>(set.tokens * set.topk), -1);
    const auto draw = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
    const auto take = [&](std::int64_t slot) {
        std::int32_t& expert = slots[static_cast<std::size_t>(slot)];
        if (expert >= 0) return false;
        expert = static_cast<std::int32_t>(draw(set.experts));
        return true;
    };
    for (std::int64_t t = 0; t < set.tokens; ++t) take(t * set.topk + draw(set.topk));
    for (std::int64_t left = set.valid - set.tokens; left > 0;) left -= take(draw(set.tokens * set.topk));
    return slots;
}

Tensor uploaded(const Stream& stream, const std::vector<std::int32_t>& numbers, const Shape& extents) {
    return Tensor::from_host(stream, i32, extents, numbers.data());
}

}  // namespace

Mapping::Mapping(const MoeSet& set, std::int64_t align) : tokens(set.tokens), topk(set.topk), positions(0) {
    std::mt19937 random(1);
    const std::vector<std::int32_t> expert = experts_of_slots(set, random);
    token_topk_to_pos.assign(expert.size(), -1);
    for (std::int32_t e = 0; e < set.experts; ++e) {
        for (std::size_t slot = 0; slot < expert.size(); ++slot) {
            if (expert[slot] != e) continue;
            token_topk_to_pos[slot] = static_cast<std::int32_t>(pos_to_expert.size());
            pos_to_token.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(slot) / topk));
            pos_to_expert.push_back(e);
        }
        while (static_cast<std::int64_t>(pos_to_expert.size()) % align != 0) {
            pos_to_expert.push_back(-1);
            pos_to_token.push_back(-1);
        }
    }
    positions = static_cast<std::int64_t>(pos_to_expert.size());
}

Tensor Mapping::slots_on(const Stream& stream) const { return uploaded(stream, token_topk_to_pos, {tokens, topk}); }
Tensor Mapping::experts_on(const Stream& stream) const { return uploaded(stream, pos_to_expert, {positions}); }
Tensor Mapping::tokens_on(const Stream& stream, std::int64_t rows) const {
    std::vector<std::int32_t> some = pos_to_token;
    some.resize(static_cast<std::size_t>(rows), -1);
    return uploaded(stream, some, {rows});
}

}  // namespace tessera::bench

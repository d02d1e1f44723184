#include "kernels/moe.hpp"
#include "kernels/moe_gate.hpp"
#include "kernels/moe_mapping.hpp"
#include "kernels/moe_routing.hpp"
#include "tests/support/kernels/public_call_inputs.hpp"

namespace tessera::test {

namespace {

constexpr std::int64_t num_experts = 64;

PreparedCall expand(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {tokens, hidden}, random), slots = shuffled(s, rows, {tokens, topk}, random),
                 experts = shuffled(s, rows, {rows}, random);
    return call_of(
        {x, slots, experts}, [=] { return std::vector<Tensor>{moe::expand_to_fused(s, x, slots, experts)}; },
        [=](Out o) { return [=] { moe::expand_to_fused(s, x, slots, experts, o[0]); }; });
}

PreparedCall expand_with_sf(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, e4m3, {tokens, hidden}, random), sf = positive(s, {tokens, hidden / 128}, random),
                 slots = shuffled(s, rows, {tokens, topk}, random), experts = shuffled(s, rows, {rows}, random);
    return call_of(
        {x, sf, slots, experts},
        [=] {
            const moe::Expanded e = moe::expand_to_fused_with_sf(s, x, sf, slots, experts);
            return std::vector<Tensor>{e.data, e.sf};
        },
        [=](Out o) { return [=] { moe::expand_to_fused_with_sf(s, x, sf, slots, experts, o[0], o[1]); }; });
}

PreparedCall reduce(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor x = filled(s, bf16, {rows, hidden}, random), slots = shuffled(s, rows, {tokens, topk}, random),
                 weights = positive(s, {tokens, topk}, random);
    moe::ReduceOptions options;
    options.topk_weights = weights;
    return call_of(
        {x, slots, weights}, [=] { return std::vector<Tensor>{moe::reduce_fused(s, x, slots, options)}; },
        [=](Out o) { return [=] { moe::reduce_fused(s, x, slots, o[0], options); }; });
}

PreparedCall top_k(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor scores = filled(s, f32, {tokens, num_experts}, random);
    return call_of(
        {scores}, [=] { return std::vector<Tensor>{moe::topk_gate(s, scores, 6)}; },
        [=](Out o) { return [=] { moe::topk_gate(s, scores, o[0]); }; });
}

PreparedCall top_groups(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor scores = filled(s, f32, {tokens, 8, num_experts / 8}, random);
    const moe::GroupOptions options{2, 4};
    return call_of(
        {scores}, [=] { return std::vector<Tensor>{moe::topk_sum_and_topk_group_idx(s, scores, options)}; },
        [=](Out o) { return [=] { moe::topk_sum_and_topk_group_idx(s, scores, o[0], options); }; });
}

PreparedCall gate(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor logits = filled(s, f32, {tokens, num_experts}, random), bias = filled(s, f32, {num_experts}, random);
    moe::GateOptions options;
    options.num_topk = 6, options.num_groups = 8, options.num_topk_groups = 4;
    return call_of(
        {logits, bias},
        [=] {
            const moe::Gated g = moe::top2_sum_gate(s, logits, bias, options);
            return std::vector<Tensor>{g.topk_idx, g.topk_weights};
        },
        [=](Out o) { return [=] { moe::top2_sum_gate(s, logits, bias, o[0], o[1], options); }; });
}

PreparedCall normalize(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor weights = positive(s, {tokens, topk}, random);
    return call_of(
        {weights},
        [=] {
            const moe::Normalized n = moe::normalize_weight(s, weights);
            return std::vector<Tensor>{n.denominator, n.weights};
        },
        [=](Out o) { return [=] { moe::normalize_weight(s, weights, o[0], o[1]); }; });
}

PreparedCall mask(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor indices = ids(s, {tokens, topk}, num_experts, random);
    const moe::TensorParallel ranks{num_experts, 8, 1, 2};
    return call_of(
        {indices}, [=] { return std::vector<Tensor>{moe::mask_indices_by_tp(s, indices, ranks)}; },
        [=](Out o) { return [=] { moe::mask_indices_by_tp(s, indices, o[0], ranks); }; });
}

PreparedCall unique(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    return call_in_place(s, {}, {ids(s, {tokens, 8}, 8, random)},
                         [=](Out o) { moe::inplace_unique_group_indices(s, o[0], 8); });
}

PreparedCall count(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor indices = ids(s, {tokens, topk}, num_experts, random);
    return call_of(
        {indices}, [=] { return std::vector<Tensor>{moe::group_count(s, indices, num_experts)}; },
        [=](Out o) { return [=] { moe::group_count(s, indices, o[0]); }; });
}

PreparedCall load_of_experts(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor indices = ids(s, {tokens, topk}, num_experts, random);
    return call_of(
        {indices}, [=] { return std::vector<Tensor>{moe::aux_fi(s, indices, num_experts, topk)}; },
        [=](Out o) { return [=] { moe::aux_fi(s, indices, o[0], topk); }; });
}

/// It has only the form that allocates.
PreparedCall mapping(const Stream& s, std::uint64_t seed) {
    Random random(seed);
    const Tensor indices = ids(s, {tokens, topk}, num_experts, random);
    moe::MappingOptions options;
    options.num_experts = num_experts, options.alignment = 4, options.num_expanded_tokens = rows + 4 * num_experts;
    const auto made = [=] {
        const moe::FusedMapping m = moe::get_fused_mapping(s, indices, options);
        return std::vector<Tensor>{m.pos_to_expert, m.pos_to_token, m.pos_to_token_topk,    m.token_topk_to_pos,
                                   m.expert_start,  m.expert_end,   m.num_tokens_per_expert};
    };
    return call_of({indices}, made, [=](Out o) {
        return [=] {
            const std::vector<Tensor> from = made();
            for (std::size_t i = 0; i < o.size(); ++i) copy(s, o[i], from[i]);
        };
    });
}

}  // namespace

std::vector<PublicCall> moe_calls() {
    return {
        {"moe::expand_to_fused", expand},
        {"moe::expand_to_fused_with_sf", expand_with_sf},
        {"moe::reduce_fused", reduce},
        {"moe::topk_gate", top_k},
        {"moe::topk_sum_and_topk_group_idx", top_groups},
        {"moe::top2_sum_gate", gate},
        {"moe::normalize_weight", normalize},
        {"moe::mask_indices_by_tp", mask},
        {"moe::inplace_unique_group_indices", unique},
        {"moe::group_count", count, Scratch::taken},
        {"moe::aux_fi", load_of_experts, Scratch::taken},
        {"moe::get_fused_mapping", mapping, Scratch::taken},
    };
}

}  // namespace tessera::test

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/moe/gate_rows.hpp"
#include "kernels/moe/rows.hpp"
#include "kernels/moe_gate.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::moe {

namespace {

constexpr const char* gate = "top2_sum_gate";

template <class... T>
[[noreturn]] void refuse(fmt::format_string<T...> text, T&&... values) {
    throw UsageError(fmt::format("{}: {}", gate, fmt::format(text, std::forward<T>(values)...)));
}

std::int64_t shared_of(const GateOptions& o) { return o.use_shared_as_routed ? o.num_shared_experts : 0; }
std::int64_t replicas_of(const GateOptions& o) { return o.to_physical_map ? o.to_physical_map->extents[1] : 0; }
bool limits_groups(const GateOptions& o) { return o.num_groups != o.num_topk_groups; }

void check_groups(const GateOptions& o, std::int64_t experts) {
    if (o.num_groups < 0) refuse("num_groups is {}; it is 0 for none, or at least 1", o.num_groups);
    if ((o.num_groups == 0) != (o.num_topk_groups == 0))
        refuse("num_groups is {} and num_topk_groups is {}; both are 0 or neither", o.num_groups, o.num_topk_groups);
    if (o.num_topk_groups < 0 || o.num_topk_groups > o.num_groups)
        refuse("num_topk_groups is {}; with {} groups it is from 1 to {}", o.num_topk_groups, o.num_groups,
               o.num_groups);
    if (o.num_groups > 0 && experts % o.num_groups != 0)
        refuse("{} groups do not divide {} experts", o.num_groups, experts);
    if (!limits_groups(o)) return;
    const std::int64_t members = experts / o.num_groups;
    if (o.num_groups > 32) refuse("num_groups is {}; at most 32 of which some are taken", o.num_groups);
    if (members < 2)
        refuse("{} groups of {} have one expert each; a group counts by its two best", o.num_groups, experts);
    if (o.num_topk > o.num_topk_groups * members)
        refuse("num_topk is {}, but {} groups of {} experts have only {}", o.num_topk, o.num_topk_groups, members,
               o.num_topk_groups * members);
}

void check_shared(const GateOptions& o, std::int64_t experts) {
    if (!o.use_shared_as_routed) return;
    const std::int64_t shared = o.num_shared_experts;
    if (shared != 1 && shared != 2) refuse("num_shared_experts is {}; as routed ones there are 1 or 2", shared);
    if (o.num_topk % shared != 0 || experts % (o.num_topk / shared) != 0)
        refuse(
            "{} shared experts do not fit {} slots of {} experts: they divide the slots, and the quotient the experts",
            shared, o.num_topk, experts);
    if (replicas_of(o) < shared + 1)
        refuse("use_shared_as_routed with {} shared experts needs to_physical_map with at least {} columns, not {}",
               shared, shared + 1, replicas_of(o));
}

void check_map(const Stream& stream, const GateOptions& o, std::int64_t experts) {
    if (o.to_physical_map.has_value() != o.logical_count.has_value())
        refuse("to_physical_map and logical_count are given together or not at all");
    if (!o.to_physical_map) return;
    const std::int64_t logical = experts + shared_of(o);
    check_tensor(gate, "to_physical_map", stream, *o.to_physical_map, i32, 2);
    if (o.to_physical_map->extents[0] != logical || o.to_physical_map->extents[1] < 1)
        refuse(
            "to_physical_map has extents {}; it has a row for each of {} experts, shared ones included, and a "
            "column at least",
            text_of(o.to_physical_map->extents), logical);
    check_dense(gate, "logical_count", stream, *o.logical_count, i32, {logical});
}

void check_ranks(const GateOptions& o, std::int64_t experts) {
    const std::int64_t physical = experts + std::max<std::int64_t>(replicas_of(o) - 1, 0);
    if (o.num_ep_ranks < 1 || o.num_ep_ranks > physical)
        refuse("num_ep_ranks is {}; with {} physical experts it is from 1 to {}", o.num_ep_ranks, physical, physical);
    if (o.ep_rank < 0) refuse("ep_rank is {}; it is at least 0", o.ep_rank);
    if (o.num_tp_ranks < 1) refuse("num_tp_ranks is {}; it is at least 1", o.num_tp_ranks);
    if (o.tp_rank < 0 || o.tp_rank >= o.num_tp_ranks)
        refuse("tp_rank is {} of {}; it is from 0 to the number of ranks, less 1", o.tp_rank, o.num_tp_ranks);
}

void check_masks(const Stream& stream, const GateOptions& o, std::int64_t tokens) {
    if (o.mask) {
        if (o.mask->count() != tokens)
            refuse("mask has extents {}; it has {} elements", text_of(o.mask->extents), tokens);
        check_dense(gate, "mask", stream, *o.mask, boolean, o.mask->extents);
    }
    if (o.fix_routing_mask) {
        check_dense(gate, "fix_routing_mask", stream, *o.fix_routing_mask, boolean, {tokens});
        if (!o.unmapped_topk_idx)
            refuse("fix_routing_mask is given without unmapped_topk_idx, which holds the experts");
    }
    if (o.unmapped_topk_idx) {
        check_rows(gate, "unmapped_topk_idx", stream, *o.unmapped_topk_idx);
        const Shape extents{tokens, o.num_topk};
        if (o.unmapped_topk_idx->element != i64 || !(o.unmapped_topk_idx->extents == extents))
            refuse("unmapped_topk_idx is {} {}, but must be i64 {}", name_of(o.unmapped_topk_idx->element),
                   text_of(o.unmapped_topk_idx->extents), text_of(extents));
    }
}

void check(const Stream& stream, const TensorView& logits, const TensorView& bias, const GateOptions& o) {
    check_tensor(gate, "logits", stream, logits, f32, 2);
    const std::int64_t experts = logits.extents[1];
    check_dense(gate, "bias", stream, bias, f32, {experts});
    if (experts < 1 || experts > most_experts)
        refuse("logits have {} experts; there is at least one, and a warp takes at most {}", experts, most_experts);
    if (o.num_topk < 1 || o.num_topk > experts)
        refuse("num_topk is {}; with {} experts it is from 1 to {}", o.num_topk, experts, experts);
    if (o.scoring != Scoring::sigmoid && o.scoring != Scoring::sqrtsoftplus && o.scoring != Scoring::softmax)
        refuse("scoring is number {}; it is sigmoid, sqrtsoftplus or softmax", static_cast<int>(o.scoring));
    check_groups(o, experts);
    check_map(stream, o, experts);
    check_shared(o, experts);
    if (o.num_topk + shared_of(o) > most_slots)
        refuse("{} routed and {} shared slots; together at most {}", o.num_topk, shared_of(o), most_slots);
    check_ranks(o, experts);
    check_masks(stream, o, logits.extents[0]);
}

GateForm form_of(const GateOptions& o, std::int64_t experts) {
    GateForm form{experts};
    if (limits_groups(o)) form.groups = o.num_groups, form.chosen_groups = o.num_topk_groups;
    form.replicas = replicas_of(o), form.shared = shared_of(o), form.topk = o.num_topk, form.scoring = o.scoring;
    form.per_rank = (experts + std::max<std::int64_t>(form.replicas - 1, 0)) / o.num_ep_ranks;
    form.num_tp_ranks = o.num_tp_ranks;
    form.mask = o.mask.has_value(), form.fixed = o.fix_routing_mask.has_value();
    form.unmapped = o.unmapped_topk_idx.has_value();
    return form;
}

TensorView reshaped(TensorView view, const Shape& extents) {
    view.extents = extents, view.strides = dense_strides(extents);
    return view;
}

void launch(const Stream& stream, const TensorView& logits, const TensorView& bias, const TensorView& ids,
            const TensorView& weights, const GateOptions& o) {
    const std::int64_t tokens = logits.extents[0], experts = logits.extents[1];
    if (tokens == 0) return;
    const GateForm f = form_of(o, experts);
    const KernelId id(gate, {f.experts, f.groups, f.chosen_groups, f.replicas, f.shared, f.topk, f.scoring, f.per_rank,
                             f.num_tp_ranks, f.mask, f.fixed, f.unmapped});
    const CompiledKernel& kernel = Engine::of(stream).kernel(stream, id, [&] { return top2_sum_gate_program(f); });
    TensorView tensors[10] = {reshaped(logits, {tokens, f.groups, experts / f.groups}),
                              reshaped(logits, {tokens * experts}), reshaped(bias, {f.groups, experts / f.groups})};
    std::size_t count = 3;
    if (f.mask) tensors[count++] = reshaped(*o.mask, {tokens});
    if (f.fixed) tensors[count++] = *o.fix_routing_mask;
    if (f.replicas > 0) {
        tensors[count++] = reshaped(*o.to_physical_map, {o.to_physical_map->count()});
        tensors[count++] = *o.logical_count;
    }
    if (f.unmapped) tensors[count++] = with_pitch(*o.unmapped_topk_idx);
    tensors[count++] = ids, tensors[count++] = weights;
    const Scalar scalars[] = {{"factor", o.routed_scaling_factor}, {"ep_rank", o.ep_rank}, {"tp_rank", o.tp_rank}};
    kernel.launch(stream, std::span<const TensorView>(tensors, count), scalars);
}

}  // namespace

Scoring scoring_of(const std::string& label) {
    std::string low = label;
    std::transform(low.begin(), low.end(), low.begin(), [](unsigned char c) { return std::tolower(c); });
    if (low == "sigmoid") return Scoring::sigmoid;
    if (low == "sqrtsoftplus") return Scoring::sqrtsoftplus;
    if (low == "softmax") return Scoring::softmax;
    refuse("the scoring function \"{}\" is not known; use sigmoid, sqrtsoftplus or softmax", label);
}

void top2_sum_gate(const Stream& stream, const TensorView& logits, const TensorView& bias, const TensorView& topk_idx,
                   const TensorView& topk_weights, const GateOptions& options) {
    check(stream, logits, bias, options);
    const Shape extents{logits.extents[0], options.num_topk + shared_of(options)};
    check_dense(gate, "topk_idx", stream, topk_idx, i64, extents);
    check_dense(gate, "topk_weights", stream, topk_weights, f32, extents);
    launch(stream, logits, bias, topk_idx, topk_weights, options);
}

Gated top2_sum_gate(const Stream& stream, const TensorView& logits, const TensorView& bias,
                    const GateOptions& options) {
    check(stream, logits, bias, options);
    const Shape extents{logits.extents[0], options.num_topk + shared_of(options)};
    auto [indices, weights] = Tensor::empty_together(stream, {{i64, extents}, {f32, extents}});
    Gated result{std::move(indices), std::move(weights)};
    launch(stream, logits, bias, result.topk_idx, result.topk_weights, options);
    return result;
}

}  // namespace tessera::moe

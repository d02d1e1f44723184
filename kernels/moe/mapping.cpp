#include "kernels/moe/mapping.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "dsl/base/error.hpp"
#include "dsl/front/functions.hpp"
#include "kernels/moe/gate_rows.hpp"
#include "kernels/moe_mapping.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::moe {

namespace {

constexpr const char* mapping = "get_fused_mapping";
constexpr std::int64_t most_mapped_experts = 4096;

/// Rows that may be needed at most: experts without a slot have none, and there are no more others than slots.
std::int64_t most_rows(std::int64_t slots, const MappingOptions& o) {
    return (slots + (o.alignment - 1) * std::min(slots, o.num_experts)) / o.alignment * o.alignment;
}

void check(const Stream& stream, const TensorView& topk_idx, const MappingOptions& o) {
    check_tensor(mapping, "topk_idx", stream, topk_idx, i64, 2);
    const auto refuse = [](const std::string& why) { throw UsageError(fmt::format("{}: {}", mapping, why)); };
    if (topk_idx.extents[1] < 1)
        refuse(fmt::format("topk_idx has extents {}; at least 1 slot", text_of(topk_idx.extents)));
    if (o.num_experts < 1 || o.num_experts > most_mapped_experts)
        refuse(fmt::format("num_experts is {}; from 1 to {}", o.num_experts, most_mapped_experts));
    if (o.alignment < 1 || o.alignment > INT32_MAX)
        refuse(fmt::format("alignment is {}; it is from 1 to 2^31 - 1", o.alignment));
    if (o.num_expanded_tokens < 0)
        refuse(fmt::format("num_expanded_tokens is {}; it is at least 0", o.num_expanded_tokens));
    const std::int64_t slots = topk_idx.count();
    if (o.num_expanded_tokens > INT32_MAX)
        refuse(fmt::format("num_expanded_tokens is {}; rows are numbered by i32, so it is at most 2^31 - 1",
                           o.num_expanded_tokens));
    if (slots > INT32_MAX || most_rows(slots, o) > INT32_MAX)
        refuse(
            fmt::format("{} slots of {} experts with alignment {} may need up to {} rows, which are numbered by "
                        "i32; map fewer tokens at once, or take a smaller alignment",
                        slots, o.num_experts, o.alignment, most_rows(slots, o)));
}

/// How slots are cut: `steps` times 32 in a row are a warp's.
struct Chunks {
    std::int64_t steps, count;
    explicit Chunks(std::int64_t slots)
        : steps(std::max<std::int64_t>(4, ceil_div(slots, 32 * most_chunks))),
          count(std::max<std::int64_t>(1, ceil_div(slots, 32 * steps))) {}
};

TensorView flat(TensorView view) {
    view.extents = {view.count()}, view.strides = {1};
    return view;
}

template <class Record>
const CompiledKernel& kernel(const Stream& stream, KernelName name, std::int64_t option, Record&& record) {
    return Engine::of(stream).kernel(stream, KernelId(name, {option}), record);
}

void launch_together(const Stream& stream, const TensorView& topk_idx, const FusedMapping& out, const MappingOptions& o,
                     const MappingPlan& plan) {
    const std::int64_t topk = topk_idx.extents[1];
    const Tensor counts = Tensor::empty(stream, i32, {plan.blocks, plan.wide});
    Engine::of(stream)
        .kernel(stream, KernelId("map_slots", {topk, plan.wide, plan.threads, plan.steps, plan.most_blocks}),
                [&] { return map_slots_program(topk, plan); })
        .launch(stream,
                {flat(topk_idx), counts, out.expert_start, out.expert_end, out.num_tokens_per_expert,
                 flat(out.token_topk_to_pos), out.pos_to_expert, out.pos_to_token, out.pos_to_token_topk},
                {Scalar("alignment", o.alignment)});
}

void launch_apart(const Stream& stream, const TensorView& topk_idx, const FusedMapping& out, const MappingOptions& o) {
    const TensorView ids = flat(topk_idx);
    const Chunks chunks(ids.count());
    const Tensor counts = Tensor::zeros(stream, i32, {o.num_experts, chunks.count});
    const Tensor totals = Tensor::empty(stream, i32, {o.num_experts});
    kernel(stream, "count_slots", 0, [] { return count_slots_program(); })
        .launch(stream, {ids, counts, flat(counts), out.pos_to_expert, out.pos_to_token, out.pos_to_token_topk},
                {Scalar("chunk_slots", 32 * chunks.steps)});
    kernel(stream, "scan_chunks", 0, [] { return scan_chunks_program(); }).launch(stream, {counts, totals});
    kernel(stream, "scan_experts", o.num_experts, [&] { return scan_experts_program(o.num_experts); })
        .launch(stream, {totals, out.expert_start, out.expert_end, out.num_tokens_per_expert},
                {Scalar("alignment", o.alignment)});
    const std::int64_t topk = topk_idx.extents[1];
    if (ids.count() > 0)
        kernel(stream, "place_slots", topk, [&] { return place_slots_program(topk); })
            .launch(stream,
                    {ids, out.expert_start, flat(counts), flat(out.token_topk_to_pos), out.pos_to_expert,
                     out.pos_to_token, out.pos_to_token_topk},
                    {Scalar("chunks", chunks.count), Scalar("steps", chunks.steps)});
}

void launch(const Stream& stream, const TensorView& topk_idx, const FusedMapping& out, const MappingOptions& o) {
    const MappingPlan plan = mapping_plan(topk_idx.count(), o.num_experts, stream.device().target().multiprocessors);
    if (plan.wide > 0 && o.plan == MappingOptions::one_launch)
        launch_together(stream, topk_idx, out, o, plan);
    else
        launch_apart(stream, topk_idx, out, o);
}

Tensor cut(const Tensor& rows, std::int64_t count) {
    return Tensor::adopt(rows.view().slice(0, 0, count), rows.owner());
}

}  // namespace

FusedMapping get_fused_mapping(const Stream& stream, const TensorView& topk_idx, const MappingOptions& options) {
    check(stream, topk_idx, options);
    const MappingOptions& o = options;
    const bool waits = o.num_expanded_tokens == 0 && !o.force_no_sync;
    const std::int64_t rows = waits ? most_rows(topk_idx.count(), o) : o.num_expanded_tokens;
    const Shape experts{o.num_experts};
    auto [pos_to_expert, pos_to_token, pos_to_token_topk, token_topk_to_pos, start, end, counted] =
        Tensor::empty_together(stream, {{i32, {rows}},
                                        {i32, {rows}},
                                        {i32, {rows}},
                                        {i32, topk_idx.extents},
                                        {i32, experts},
                                        {i32, experts},
                                        {i32, experts}});
    FusedMapping out{
        std::move(pos_to_expert), std::move(pos_to_token), std::move(pos_to_token_topk), std::move(token_topk_to_pos),
        std::move(start),         std::move(end),          std::move(counted),           {}};
    launch(stream, topk_idx, out, o);
    if (!waits) return out;
    const Tensor counts = out.num_tokens_per_expert.to_host(stream);
    out.num_tokens_per_expert_list.assign(counts.as<const std::int32_t>(),
                                          counts.as<const std::int32_t>() + o.num_experts);
    const auto& list = out.num_tokens_per_expert_list;
    const std::int64_t used = std::accumulate(list.begin(), list.end(), std::int64_t{0});
    for (Tensor* t : {&out.pos_to_expert, &out.pos_to_token, &out.pos_to_token_topk}) *t = cut(*t, used);
    return out;
}

}  // namespace tessera::moe

#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "kernels/moe/gate_rows.hpp"
#include "kernels/moe/rows.hpp"
#include "kernels/moe_routing.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

// Histograms of ids, and what the balance loss makes of one. Whole numbers are added atomically: their sum does not
// depend on the order. A block counts in shared memory and adds what it has met to the result, once for each group.

namespace tessera::moe {

namespace {

constexpr const char* count_groups = "group_count";
constexpr const char* balance = "aux_fi";
constexpr std::int64_t most_groups = std::int64_t{1} << 20;

void check_ids(const char* function, const char* name, const Stream& stream, const TensorView& ids) {
    check_tensor(function, name, stream, ids, i64, 2);
    if (ids.count() > INT32_MAX)
        throw UsageError(fmt::format("{}: {} has extents {}; i32 counts hold at most {} ids", function, name,
                                     text_of(ids.extents), INT32_MAX));
}

void check_groups(const char* function, const char* name, std::int64_t groups) {
    if (groups < 1 || groups > most_groups)
        throw UsageError(fmt::format("{}: {} is {}; from 1 to {}", function, name, groups, most_groups));
}

void check_aux(const Stream& stream, const TensorView& topk_idx, std::int64_t num_experts, std::int64_t num_aux_topk) {
    check_ids(balance, "topk_idx", stream, topk_idx);
    check_groups(balance, "num_experts", num_experts);
    if (num_aux_topk < 1) throw UsageError(fmt::format("{}: num_aux_topk is {}; at least 1", balance, num_aux_topk));
}

/// counts, which are 0, become the histogram.
void launch_count(const Stream& stream, const TensorView& ids, const TensorView& counts) {
    if (ids.count() == 0) return;
    const CountPlan plan = count_plan(counts.extents[0]);
    const bool aligned = reinterpret_cast<std::uintptr_t>(ids.data) % 16 == 0;
    TensorView flat = ids;
    flat.extents = {ids.count()}, flat.strides = {1};
    Engine::of(stream)
        .kernel(stream, KernelId(count_groups, {plan.shared_groups, aligned}),
                [&] { return group_count_program(plan, aligned); })
        .launch(stream, {flat, counts});
}

}  // namespace

CountPlan count_plan(std::int64_t groups) {
    constexpr std::int64_t most_shared = 8192, fewest = 64;  // the block's zeroing and adding stay beside its counting
    const auto wide = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(groups, fewest))));
    return {wide > most_shared ? 0 : wide};
}

Program group_count_program(const CountPlan& plan, bool aligned) {
    return record(count_groups, [=](Kernel& k) {
        const std::int64_t wide = plan.shared_groups, each = wide ? 4096 : 512;
        const Dim count = k.dim("count"), groups = k.dim("groups");
        const auto ids = k.input<i64>("ids", {count}, {.align = aligned ? 16 : 8});
        const auto out = k.inout<i32>("out", {groups}, {.align = 4});
        k.threads(wide ? 512 : 256);
        const auto [m] = k.grid(ceil_div(count, each));
        const auto id = load(ids.block({each}, {m}), -1);
        const auto ones = full({each}, Value<i32, 0>(1));
        if (!wide) return atomic_add(out.window({each}, {id}), ones);
        const auto own = k.shared<i32>("own", {wide});
        store(own.whole(), full({wide}, Value<i32, 0>(0)));
        atomic_add(own.window({each}, {id}), ones);
        const auto sums = load(own.whole(), {.per_thread = {1}});
        const auto met = select(sums != 0, coordinates({wide}, axis<0>), -1);
        atomic_add(out.window({wide}, {met}), sums);
    });
}

Program aux_fi_program() {
    return record(balance, [=](Kernel& k) {
        constexpr std::int64_t each = 128;
        const Dim experts = k.dim("experts");
        const auto slots = k.scalar<i64>("slots");  // tokens · num_aux_topk
        const auto counts = k.input<i32>("counts", {experts}, {.align = 4});
        const auto out = k.output<f32>("out", {experts}, {.align = 4});
        k.threads(each);
        const auto [m] = k.grid(ceil_div(experts, each));
        const auto total = cast<i64>(load(counts.block({each}, {m}))) * experts;
        store(out.block({each}, {m}), cast<f32>(total) / cast<f32>(slots));
    });
}

void group_count(const Stream& stream, const TensorView& group_idx, const TensorView& out) {
    check_ids(count_groups, "group_idx", stream, group_idx);
    check_tensor(count_groups, "out", stream, out, i32, 1);
    check_groups(count_groups, "num_groups", out.extents[0]);
    const Tensor counts = Tensor::zeros(stream, i32, out.extents);
    launch_count(stream, group_idx, counts);
    copy(stream, out, counts);
}

Tensor group_count(const Stream& stream, const TensorView& group_idx, std::int64_t num_groups) {
    check_ids(count_groups, "group_idx", stream, group_idx);
    check_groups(count_groups, "num_groups", num_groups);
    Tensor out = Tensor::zeros(stream, i32, {num_groups});
    launch_count(stream, group_idx, out);
    return out;
}

void aux_fi(const Stream& stream, const TensorView& topk_idx, const TensorView& out, std::int64_t num_aux_topk) {
    check_tensor(balance, "out", stream, out, f32, 1);
    const std::int64_t experts = out.extents[0], tokens = topk_idx.rank() == 2 ? topk_idx.extents[0] : 0;
    check_aux(stream, topk_idx, experts, num_aux_topk);
    const Tensor counts = Tensor::zeros(stream, i32, {experts});
    launch_count(stream, topk_idx, counts);
    const std::int64_t slots = tokens == 0 ? 1 : tokens * num_aux_topk;
    Engine::of(stream)
        .kernel(stream, KernelId(balance, {}), [] { return aux_fi_program(); })
        .launch(stream, {counts, out}, {Scalar("slots", slots)});
}

Tensor aux_fi(const Stream& stream, const TensorView& topk_idx, std::int64_t num_experts, std::int64_t num_aux_topk) {
    check_aux(stream, topk_idx, num_experts, num_aux_topk);
    Tensor out = Tensor::empty(stream, f32, {num_experts});
    aux_fi(stream, topk_idx, out, num_aux_topk);
    return out;
}

}  // namespace tessera::moe

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <optional>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "kernels/moe/gate_rows.hpp"
#include "kernels/moe/rows.hpp"
#include "kernels/moe_routing.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

// Histograms of ids, and what the balance loss makes of one. Blocks count in shared memory and write a row of counts
// each; a second kernel adds the rows. Too many groups for that are counted in one row, in place.

namespace tessera::moe {

namespace {

constexpr const char* count_groups = "group_count";
constexpr const char* sum_counts = "sum_counts";
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
    if (num_aux_topk < 1 || num_aux_topk > INT32_MAX)
        throw UsageError(fmt::format("{}: num_aux_topk is {}; from 1 to 2^31 - 1", balance, num_aux_topk));
    const std::int64_t tokens = topk_idx.extents[0];
    if (tokens > INT32_MAX)
        throw UsageError(fmt::format("{}: topk_idx has {} tokens; at most 2^31 - 1", balance, tokens));
}

constexpr std::int64_t ids_at_once = 4096;  // of a block
constexpr std::int64_t most_blocks = 256;   // that count in shared memory

/// Rows of counts, whose sum is the histogram of `groups` groups; columns past those mean nothing.
Tensor count_rows(const Stream& stream, const TensorView& ids, const CountPlan& plan, std::int64_t groups) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(ids.data) % 16 == 0;
    const std::int64_t blocks = std::clamp<std::int64_t>(ceil_div(ids.count(), ids_at_once), 1, most_blocks);
    const Tensor counts = plan.shared_groups > 0 ? Tensor::empty(stream, i32, {blocks, plan.shared_groups})
                                                 : Tensor::zeros(stream, i32, {1, groups});
    TensorView flat = ids;
    flat.extents = {ids.count()}, flat.strides = {1};
    Engine::of(stream)
        .kernel(stream, KernelId(count_groups, {plan.shared_groups, aligned}),
                [&] { return group_count_program(plan, aligned); })
        .launch(stream, {flat, counts});
    return counts;
}

/// out: counts of the ids, or with `slots` their loads.
void launch(const Stream& stream, const TensorView& ids, const TensorView& out, std::optional<std::int64_t> slots) {
    const CountPlan plan = count_plan(out.extents[0]);
    const Tensor counts = count_rows(stream, ids, plan, out.extents[0]);
    const Scalar divisor("slots", slots.value_or(1));
    const TensorRef tensors[] = {counts, out};
    Engine::of(stream)
        .kernel(stream, KernelId(sum_counts, {plan.shared_groups, slots.has_value()}),
                [&] { return sum_counts_program(plan, slots.has_value()); })
        .launch(stream, tensors, std::span<const Scalar>(&divisor, slots ? 1 : 0),
                {.dependent = plan.shared_groups > 0});
}

/// Counts in shared memory, a row for each block.
void count_in_shared(Kernel& k, const Global<i64, 1>& ids, const Index& count, std::int64_t wide) {
    const Dim blocks = k.dim("blocks");
    const auto counts = k.output<i32>("counts", {blocks, wide});
    k.dependent_launch();  // so that the sum of the rows may be on its way, too
    k.threads(512);
    const auto [m] = k.grid(blocks);
    const auto own = k.shared<i32>("own", {wide});
    store(own.whole(), full({wide}, Value<i32, 0>(0)));
    k.serial((ceil_div(count, ids_at_once) + (blocks - 1)) / blocks, [&](const Index& turn) {
        const auto id = load(ids.block({ids_at_once}, {turn * blocks + m}), -1);
        atomic_add(own.window({ids_at_once}, {id}), full({ids_at_once}, Value<i32, 0>(1)));
    });
    store(counts.block({1, wide}, {m, 0}), load(own.whole()).unsqueeze(axis<0>));
}

/// Counts in the one row of the result, which was cleared.
void count_in_result(Kernel& k, const Global<i64, 1>& ids, const Index& count) {
    constexpr std::int64_t each = 512;
    const auto counts = k.inout<i32>("counts", {1, k.dim("groups")}, {.align = 4});
    k.threads(256);
    const auto [m] = k.grid(ceil_div(count, each));
    const auto id = load(ids.block({each}, {m}), -1);
    atomic_add(counts[0].window({each}, {id}), full({each}, Value<i32, 0>(1)));
}

}  // namespace

CountPlan count_plan(std::int64_t groups) {
    constexpr std::int64_t most_shared = 8192, fewest = 32;
    const auto wide = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(groups, fewest))));
    return {wide > most_shared ? 0 : wide};
}

Program group_count_program(const CountPlan& plan, bool aligned) {
    return record(count_groups, [=](Kernel& k) {
        const Dim count = k.dim("count");
        const auto ids = k.input<i64>("ids", {count}, {.align = aligned ? 16 : 8});
        if (plan.shared_groups > 0)
            count_in_shared(k, ids, count, plan.shared_groups);
        else
            count_in_result(k, ids, count);
    });
}

Program sum_counts_program(const CountPlan& plan, bool loads) {
    return record(sum_counts, [=](Kernel& k) {
        const bool one_row = plan.shared_groups == 0;
        const std::int64_t rows = one_row ? 1 : 64,
                           cols = one_row ? 64 : std::min<std::int64_t>(64, plan.shared_groups);
        const Dim blocks = k.dim("blocks"), groups = k.dim("groups");
        const auto counts = one_row ? k.input<i32>("counts", {blocks, groups}, {.align = 4})
                                    : k.input<i32>("counts", {blocks, plan.shared_groups});
        k.dependent_launch();
        k.threads(one_row ? 64 : 256);
        const auto [m] = k.grid(ceil_div(groups, cols));
        auto sum = k.variable(full({1, cols}, Value<i32, 0>(0)));
        k.serial(ceil_div(blocks, rows), [&](const Index& i) {
            sum = sum.get() + reduce_sum(load(counts.block({rows, cols}, {i, m})), axis<0>);
        });
        const auto total = sum.get().squeeze(axis<0>);
        if (!loads) {
            const auto out = k.output<i32>("out", {groups}, {.align = 4});
            return store(out.block({cols}, {m}), total);
        }
        const auto out = k.output<f32>("out", {groups}, {.align = 4});
        const auto slots = k.scalar<i64>("slots");  // tokens · num_aux_topk
        store(out.block({cols}, {m}), cast<f32>(cast<i64>(total) * groups) / cast<f32>(slots));
    });
}

void group_count(const Stream& stream, const TensorView& group_idx, const TensorView& out) {
    check_ids(count_groups, "group_idx", stream, group_idx);
    check_tensor(count_groups, "out", stream, out, i32, 1);
    check_groups(count_groups, "num_groups", out.extents[0]);
    launch(stream, group_idx, out, {});
}

Tensor group_count(const Stream& stream, const TensorView& group_idx, std::int64_t num_groups) {
    check_ids(count_groups, "group_idx", stream, group_idx);
    check_groups(count_groups, "num_groups", num_groups);
    Tensor out = Tensor::empty(stream, i32, {num_groups});
    launch(stream, group_idx, out, {});
    return out;
}

void aux_fi(const Stream& stream, const TensorView& topk_idx, const TensorView& out, std::int64_t num_aux_topk) {
    check_tensor(balance, "out", stream, out, f32, 1);
    const std::int64_t experts = out.extents[0], tokens = topk_idx.rank() == 2 ? topk_idx.extents[0] : 0;
    check_aux(stream, topk_idx, experts, num_aux_topk);
    launch(stream, topk_idx, out, tokens == 0 ? 1 : tokens * num_aux_topk);
}

Tensor aux_fi(const Stream& stream, const TensorView& topk_idx, std::int64_t num_experts, std::int64_t num_aux_topk) {
    check_aux(stream, topk_idx, num_experts, num_aux_topk);
    Tensor out = Tensor::empty(stream, f32, {num_experts});
    aux_fi(stream, topk_idx, out, num_aux_topk);
    return out;
}

}  // namespace tessera::moe

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

// Histograms of ids, and what the balance loss makes of one. Blocks count in shared memory and add their counts to the
// result, or count there at once if the groups are too many for that.

namespace tessera::moe {

namespace {

constexpr const char* count_groups = "group_count";
constexpr const char* clear = "clear_counts";
constexpr const char* balance = "aux_fi";
constexpr std::int64_t most_groups = std::int64_t{1} << 20;

void check_ids(const char* function, const char* name, const Stream& stream, const TensorView& ids) {
    check_tensor(function, name, stream, ids, i64, 2);
    if (ids.count() > INT32_MAX)
        throw UsageError(fmt::format("{}: {} has extents {}; i32 counts hold at most {} ids", function, name,
                                     text_of(ids.extents), INT32_MAX));
    if (reinterpret_cast<std::uintptr_t>(ids.data) % sizeof(std::int64_t) != 0)
        throw UsageError(fmt::format("{}: {} begins at {}, but must begin at a multiple of 8 bytes", function, name,
                                     static_cast<const void*>(ids.data)));
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

constexpr std::int64_t most_blocks = 256;  // that count in shared memory

/// out: how often each id stands in `ids`. The blocks count while another kernel clears the result. Both kernels are
/// there before one is launched, so that a result stays as it was if one cannot be had.
void count(const Stream& stream, const TensorView& ids, const TensorView& out) {
    Engine& engine = Engine::of(stream);
    const CountPlan plan = count_plan(out.extents[0], ids.count());
    const bool aligned = reinterpret_cast<std::uintptr_t>(ids.data) % 16 == 0;
    const std::int64_t pieces = std::max<std::int64_t>(ceil_div(ids.count(), plan.ids_at_once), 1);
    const std::int64_t blocks = plan.shared_groups > 0 ? std::min(pieces, most_blocks) : pieces;
    const Scalar numbers[] = {Scalar("blocks", blocks), Scalar("turns", ceil_div(pieces, blocks))};
    const std::span<const Scalar> scalars(numbers, plan.shared_groups > 0 ? 2 : 1);
    TensorView flat = ids;
    flat.extents = {ids.count()}, flat.strides = {1};
    const TensorRef tensors[] = {flat, out};
    const CompiledKernel& clears = engine.kernel(stream, KernelId(clear, {}), clear_counts_program);
    const CompiledKernel& counts =
        engine.kernel(stream, KernelId(count_groups, {plan.shared_groups, plan.ids_at_once, aligned}),
                      [&] { return group_count_program(plan, aligned); });
    clears.launch(stream, {out});
    counts.launch(stream, tensors, scalars, {.dependent = true});
}

/// Adds to the counts what the block has counted in shared memory.
void count_in_shared(Kernel& k, const Global<i64, 1>& ids, const Global<i32, 1>& counts, const CountPlan& plan,
                     const Index& blocks, const Index& block) {
    const std::int64_t wide = plan.shared_groups;
    const auto own = k.shared<i32>("own", {wide});
    store(own.whole(), full({wide}, Value<i32, 0>(0)));
    k.serial(k.scalar<i64>("turns"), [&](const Index& turn) {
        const auto id = load(ids.block({plan.ids_at_once}, {turn * blocks + block}), -1);
        atomic_add(own.window({plan.ids_at_once}, {id}), full({plan.ids_at_once}, Value<i32, 0>(1)));
    });
    k.dependent_launch();
    const auto sum = load(own.whole());
    atomic_add(counts.window({wide}, {select(sum != 0, coordinates({wide}, axis<0>), -1)}), sum);
}

}  // namespace

CountPlan count_plan(std::int64_t groups, std::int64_t ids) {
    constexpr std::int64_t most_shared = 8192, fewest = 32, few_ids = 32768;
    const auto wide = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(groups, fewest))));
    // Few ids are counted soonest by many blocks, whose sums then meet in the result; of many, these would be too many.
    return {wide > most_shared ? 0 : wide, ids <= few_ids ? 1024 : 4096};
}

Program clear_counts_program() {
    return record(clear, [](Kernel& k) {
        constexpr std::int64_t cols = 1024;
        k.dependent_launch();  // the kernel that counts may start at once
        const Dim groups = k.dim("groups");
        const auto counts = k.output<i32>("counts", {groups}, {.align = 4});
        k.threads(256);
        const auto [m] = k.grid(ceil_div(groups, cols));
        store(counts.block({cols}, {m}), full({cols}, Value<i32, 0>(0)));
    });
}

Program group_count_program(const CountPlan& plan, bool aligned) {
    return record(count_groups, [=](Kernel& k) {
        const std::int64_t each = plan.ids_at_once;
        const Dim count = k.dim("count");
        const auto ids = k.input<i64>("ids", {count}, {.align = aligned ? 16 : 8});
        const auto counts = k.inout<i32>("counts", {k.dim("groups")}, {.align = 4});
        const Index blocks = k.scalar<i64>("blocks");
        k.threads(each > 1024 ? 512 : 256);
        const auto [m] = k.grid(blocks);
        if (plan.shared_groups > 0) return count_in_shared(k, ids, counts, plan, blocks, m);
        const auto id = load(ids.block({each}, {m}), -1);
        k.dependent_launch();
        atomic_add(counts.window({each}, {id}), full({each}, Value<i32, 0>(1)));
    });
}

Program aux_fi_program() {
    return record(balance, [](Kernel& k) {
        constexpr std::int64_t cols = 64;
        const Dim groups = k.dim("groups");
        const auto counts = k.input<i32>("counts", {groups}, {.align = 4});
        const auto out = k.output<f32>("out", {groups}, {.align = 4});
        const auto slots = k.scalar<i64>("slots");  // tokens · num_aux_topk
        k.threads(64);
        const auto [m] = k.grid(ceil_div(groups, cols));
        k.dependent_launch();
        const auto scaled = cast<i64>(load(counts.block({cols}, {m}))) * groups;
        store(out.block({cols}, {m}), cast<f32>(scaled) / cast<f32>(slots));
    });
}

void group_count(const Stream& stream, const TensorView& group_idx, const TensorView& out) {
    check_ids(count_groups, "group_idx", stream, group_idx);
    check_tensor(count_groups, "out", stream, out, i32, 1);
    check_groups(count_groups, "num_groups", out.extents[0]);
    count(stream, group_idx, out);
}

Tensor group_count(const Stream& stream, const TensorView& group_idx, std::int64_t num_groups) {
    check_ids(count_groups, "group_idx", stream, group_idx);
    check_groups(count_groups, "num_groups", num_groups);
    Tensor out = Tensor::empty(stream, i32, {num_groups});
    count(stream, group_idx, out);
    return out;
}

void aux_fi(const Stream& stream, const TensorView& topk_idx, const TensorView& out, std::int64_t num_aux_topk) {
    check_tensor(balance, "out", stream, out, f32, 1);
    const std::int64_t experts = out.extents[0], tokens = topk_idx.rank() == 2 ? topk_idx.extents[0] : 0;
    check_aux(stream, topk_idx, experts, num_aux_topk);
    const Tensor counts = Tensor::empty(stream, i32, {experts});
    count(stream, topk_idx, counts);
    Engine::of(stream)
        .kernel(stream, KernelId(balance, {}), aux_fi_program)
        .launch(stream, {counts, out}, {Scalar("slots", std::max<std::int64_t>(tokens, 1) * num_aux_topk)},
                {.dependent = true});
}

Tensor aux_fi(const Stream& stream, const TensorView& topk_idx, std::int64_t num_experts, std::int64_t num_aux_topk) {
    check_aux(stream, topk_idx, num_experts, num_aux_topk);
    Tensor out = Tensor::empty(stream, f32, {num_experts});
    aux_fi(stream, topk_idx, out, num_aux_topk);
    return out;
}

}  // namespace tessera::moe

#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/moe/gate_rows.hpp"
#include "kernels/moe/rows.hpp"
#include "kernels/moe_gate.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::moe {

namespace {

constexpr const char* gate = "topk_gate";
constexpr const char* by_groups = "topk_sum_and_topk_group_idx";

void check_experts(const char* function, std::int64_t experts) {
    if (experts < 1 || experts > most_experts)
        throw UsageError(fmt::format("{}: scores have {} experts; there is at least one, and a warp takes at most {}",
                                     function, experts, most_experts));
}

void check_gate(const Stream& stream, const TensorView& scores, std::int64_t num_topk) {
    check_tensor(gate, "scores", stream, scores, f32, 2);
    check_experts(gate, scores.extents[1]);
    if (num_topk < 1 || num_topk > std::min(scores.extents[1], most_slots))
        throw UsageError(fmt::format("{}: num_topk is {}; with {} experts it is from 1 to {}", gate, num_topk,
                                     scores.extents[1], std::min(scores.extents[1], most_slots)));
}

void launch_gate(const Stream& stream, const TensorView& scores, const TensorView& out) {
    if (out.extents[0] == 0) return;
    const std::int64_t experts = scores.extents[1];
    const auto topk = static_cast<int>(out.extents[1]);
    const CompiledKernel& kernel = Engine::of(stream).kernel(stream, KernelId(gate, {experts, topk}),
                                                             [&] { return topk_gate_program(experts, topk); });
    kernel.launch(stream, {scores, out});
}

void check_groups(const Stream& stream, const TensorView& scores, const GroupOptions& o) {
    check_tensor(by_groups, "scores", stream, scores, f32, 3);
    const std::int64_t groups = scores.extents[1], members = scores.extents[2];
    if (groups < 1 || groups > 32)
        throw UsageError(fmt::format("{}: scores have {} groups; from 1 to 32", by_groups, groups));
    if (members < 1 || members > most_experts)
        throw UsageError(
            fmt::format("{}: scores have groups of {} experts; from 1 to {}", by_groups, members, most_experts));
    check_experts(by_groups, groups * members);
    if (o.num_topk_sum < 1 || o.num_topk_sum > 2 || o.num_topk_sum > members)
        throw UsageError(fmt::format("{}: num_topk_sum is {}; it is 1 or 2, and at most the {} experts of a group",
                                     by_groups, o.num_topk_sum, members));
    if (o.num_topk_groups < 1 || o.num_topk_groups > groups)
        throw UsageError(fmt::format("{}: num_topk_groups is {}; with {} groups it is from 1 to {}", by_groups,
                                     o.num_topk_groups, groups, groups));
}

void launch_groups(const Stream& stream, const TensorView& scores, const TensorView& out, const GroupOptions& o) {
    if (out.extents[0] == 0) return;
    const std::int64_t groups = scores.extents[1], members = scores.extents[2];
    const CompiledKernel& kernel =
        Engine::of(stream).kernel(stream, KernelId(by_groups, {groups, members, o.num_topk_sum, o.num_topk_groups}),
                                  [&] { return topk_sum_and_topk_group_idx_program(groups, members, o); });
    kernel.launch(stream, {scores, out});
}

}  // namespace

Program topk_gate_program(std::int64_t experts, int num_topk) {
    return record(gate, [=](Kernel& k) {
        const GroupTile tile = group_tile(1, experts);
        const auto width = static_cast<std::int64_t>(std::bit_ceil(static_cast<unsigned>(num_topk)));
        const Dim tokens = k.dim("tokens");
        const auto scores = k.input<f32>("scores", {tokens, experts}, {.align = 4});
        const auto out = k.output<i64>("out", {tokens, num_topk}, {.align = 8});
        k.threads(tile.threads);
        const auto [m] = k.grid(ceil_div(tokens, tile.rows));
        const auto v = load_scores(scores.block({tile.rows, tile.members}, {m, 0}), tile);
        store(out.block({tile.rows, width}, {m, 0}), cast<i64>(top_k(v, axis<1>, num_topk)));
    });
}

Program topk_sum_and_topk_group_idx_program(std::int64_t groups, std::int64_t members, const GroupOptions& options) {
    return record(by_groups, [=](Kernel& k) {
        const GroupTile tile = group_tile(groups, members);
        const auto width = static_cast<std::int64_t>(std::bit_ceil(static_cast<unsigned>(options.num_topk_groups)));
        const Dim tokens = k.dim("tokens");
        const auto scores = k.input<f32>("scores", {tokens, groups, members}, {.align = 4});
        const auto out = k.output<i64>("out", {tokens, options.num_topk_groups}, {.align = 8});
        k.threads(tile.threads);
        const auto [m] = k.grid(ceil_div(tokens, tile.rows));
        const auto v = load_scores(scores.block({tile.rows, tile.groups, tile.members}, {m, 0, 0}), tile);
        const auto sums = sum_of_best(v, options.num_topk_sum).squeeze(axis<2>);
        store(out.block({tile.rows, width}, {m, 0}), cast<i64>(top_k(sums, axis<1>, options.num_topk_groups)));
    });
}

void topk_gate(const Stream& stream, const TensorView& scores, const TensorView& out) {
    check_tensor(gate, "out", stream, out, i64, 2);
    check_gate(stream, scores, out.extents[1]);
    check_dense(gate, "out", stream, out, i64, {scores.extents[0], out.extents[1]});
    launch_gate(stream, scores, out);
}

Tensor topk_gate(const Stream& stream, const TensorView& scores, int num_topk) {
    check_gate(stream, scores, num_topk);
    Tensor out = Tensor::empty(stream, i64, {scores.extents[0], num_topk});
    launch_gate(stream, scores, out);
    return out;
}

void topk_sum_and_topk_group_idx(const Stream& stream, const TensorView& scores, const TensorView& out,
                                 const GroupOptions& options) {
    check_groups(stream, scores, options);
    check_dense(by_groups, "out", stream, out, i64, {scores.extents[0], options.num_topk_groups});
    launch_groups(stream, scores, out, options);
}

Tensor topk_sum_and_topk_group_idx(const Stream& stream, const TensorView& scores, const GroupOptions& options) {
    check_groups(stream, scores, options);
    Tensor out = Tensor::empty(stream, i64, {scores.extents[0], options.num_topk_groups});
    launch_groups(stream, scores, out, options);
    return out;
}

}  // namespace tessera::moe

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "kernels/moe/gate_rows.hpp"
#include "kernels/moe/rows.hpp"
#include "kernels/moe_routing.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

// A thread a row: columns are loaded one after the other, and come from cache.

namespace tessera::moe {

namespace {

constexpr const char* normalize = "normalize_weight";
constexpr const char* mask_by_tp = "mask_indices_by_tp";
constexpr const char* unique = "inplace_unique_group_indices";

constexpr std::int64_t thread_rows = 128;

void check_slots(const char* function, const char* name, const Stream& stream, const TensorView& x, Element element,
                 std::int64_t most) {
    check_tensor(function, name, stream, x, element, 2);
    if (x.extents[1] < 1 || x.extents[1] > most)
        throw UsageError(fmt::format("{}: {} has extents {}; a row has from 1 to {} slots", function, name,
                                     text_of(x.extents), most));
}

void check_ranks(const TensorParallel& r) {
    const auto refuse = [](const std::string& why) { throw UsageError(fmt::format("{}: {}", mask_by_tp, why)); };
    if (r.num_ep_ranks < 1 || r.num_experts < r.num_ep_ranks)
        refuse(fmt::format("{} experts on {} ranks; every rank has at least one", r.num_experts, r.num_ep_ranks));
    if (r.num_tp_ranks < 1) refuse(fmt::format("num_tp_ranks is {}; it is at least 1", r.num_tp_ranks));
    if (r.tp_rank < 0 || r.tp_rank >= r.num_tp_ranks)
        refuse(fmt::format("tp_rank is {}; with {} ranks it is from 0 to {}", r.tp_rank, r.num_tp_ranks,
                           r.num_tp_ranks - 1));
}

}  // namespace

namespace {

constexpr std::int64_t most_slots_of_thread = 32;

/// Slot by slot, where a row is too long for a thread's registers.
void normalize_long_rows(Kernel& k, std::int64_t topk, const TensorOptions& options) {
    const Dim tokens = k.dim("tokens");
    const auto weights = k.input<f32>("weights", {tokens, topk}, options);
    const auto denominator = k.output<f32>("denominator", {tokens}, {.align = 4});
    const auto normalized = k.output<f32>("normalized", {tokens, topk}, options);
    k.threads(thread_rows);
    const auto [m] = k.grid(ceil_div(tokens, thread_rows));
    const auto piece = [&](const Global<f32, 2>& of, const Index& slot) {
        return of.window({thread_rows, 1}, {m * thread_rows, slot});
    };
    auto sum = k.variable(full({thread_rows, 1}, Value<f32, 0>(1e-20f)));
    k.serial(topk, [&](const Index& slot) { sum = sum.get() + load(piece(weights, slot)); });
    k.serial(topk, [&](const Index& slot) { store(piece(normalized, slot), load(piece(weights, slot)) / sum.get()); });
    store(denominator.block({thread_rows}, {m}), sum.get().squeeze(axis<1>));
}

/// A thread sums a row, and then all threads divide what lies side by side.
void normalize_short_rows(Kernel& k, std::int64_t topk, const TensorOptions& options) {
    constexpr std::int64_t rows = 64;
    const std::int64_t all = rows * topk, padded = align_up(all, thread_rows);
    const Dim tokens = k.dim("tokens"), count = k.dim("count", multiple_of(topk));
    const auto weights = k.input<f32>("weights", {count}, options);
    const auto denominator = k.output<f32>("denominator", {tokens}, {.align = 4});
    const auto normalized = k.output<f32>("normalized", {count}, options);
    k.threads(thread_rows);
    const auto [m] = k.grid(ceil_div(tokens, rows));
    const auto place = coordinates({padded}, axis<0>);
    const Offset at = all == padded ? Offset(m * all) : Offset(select(place < all, place + m * all, -1));

    const auto w = load(weights.block({all}, {m}), {.per_thread = {topk}}).split(axis<0>, topk);
    const auto own = load(weights.window({padded}, {at}));
    // Running sums in ascending order, of which the last is the denominator.
    const auto slot = coordinates({rows, topk}, axis<1>);
    const auto running = inclusive_sum(select(slot == 0, w + 1e-20f, w), axis<1>);
    const auto sum = reduce_sum(select(slot == topk - 1, running, 0.0f), axis<1>).squeeze(axis<1>);
    const auto sums = k.shared<f32>("sums", {rows});
    store(sums.whole(), sum);
    store(denominator.block({rows}, {m}), sum);
    const auto row = cast<i32>(place) / static_cast<int>(topk);
    store(normalized.window({padded}, {at}), own / load(sums.window({padded}, {row}), 1.0f));
}

}  // namespace

Program normalize_weight_program(std::int64_t topk, bool aligned) {
    return record(normalize, [=](Kernel& k) {
        const TensorOptions options{.align = aligned ? 16 : 4};
        if (topk > most_slots_of_thread)
            normalize_long_rows(k, topk, options);
        else
            normalize_short_rows(k, topk, options);
    });
}

void normalize_weight(const Stream& stream, const TensorView& weights, const TensorView& denominator,
                      const TensorView& normalized) {
    check_slots(normalize, "weights", stream, weights, f32, 1 << 20);
    check_dense(normalize, "denominator", stream, denominator, f32, {weights.extents[0]});
    check_dense(normalize, "normalized", stream, normalized, f32, weights.extents);
    if (weights.extents[0] == 0) return;
    const std::int64_t topk = weights.extents[1];
    const bool aligned =
        (reinterpret_cast<std::uintptr_t>(weights.data) | reinterpret_cast<std::uintptr_t>(normalized.data)) % 16 == 0;
    TensorView from = weights, to = normalized;
    if (topk <= most_slots_of_thread) {  // as one line
        from.extents = to.extents = {weights.count()};
        from.strides = to.strides = {1};
    }
    Engine::of(stream)
        .kernel(stream, KernelId(normalize, {topk, aligned}), [&] { return normalize_weight_program(topk, aligned); })
        .launch(stream, {from, denominator, to});
}

Normalized normalize_weight(const Stream& stream, const TensorView& weights) {
    check_slots(normalize, "weights", stream, weights, f32, 1 << 20);
    auto [denominator, normalized] =
        Tensor::empty_together(stream, {{f32, {weights.extents[0]}}, {f32, weights.extents}});
    Normalized result{std::move(denominator), std::move(normalized)};
    normalize_weight(stream, weights, result.denominator, result.weights);
    return result;
}

Program mask_indices_by_tp_program(std::int64_t per_rank, std::int64_t num_tp_ranks, bool aligned) {
    return record(mask_by_tp, [=](Kernel& k) {
        constexpr std::int64_t each = 512;
        const Dim count = k.dim("count");
        const auto rank = k.scalar<i64>("tp_rank");
        const auto ids = k.input<i64>("ids", {count}, {.align = aligned ? 16 : 8});
        const auto out = k.output<i64>("out", {count}, {.align = aligned ? 16 : 8});
        k.threads(256);
        const auto [m] = k.grid(ceil_div(count, each));
        const auto id = load(ids.block({each}, {m}), -1);
        const auto owner = id / per_rank;
        const auto kept = (id >= 0) & (owner % num_tp_ranks == rank);
        store(out.block({each}, {m}), select(kept, owner / num_tp_ranks * per_rank + id % per_rank, -1));
    });
}

void mask_indices_by_tp(const Stream& stream, const TensorView& indices, const TensorView& out,
                        const TensorParallel& ranks) {
    check_slots(mask_by_tp, "indices", stream, indices, i64, std::int64_t{1} << 40);
    check_ranks(ranks);
    check_dense(mask_by_tp, "out", stream, out, i64, indices.extents);
    if (indices.count() == 0) return;
    const std::int64_t per = ranks.num_experts / ranks.num_ep_ranks;
    const bool aligned =
        (reinterpret_cast<std::uintptr_t>(indices.data) | reinterpret_cast<std::uintptr_t>(out.data)) % 16 == 0;
    TensorView from = indices, to = out;
    from.extents = to.extents = {indices.count()}, from.strides = to.strides = {1};
    Engine::of(stream)
        .kernel(stream, KernelId(mask_by_tp, {per, ranks.num_tp_ranks, aligned}),
                [&] { return mask_indices_by_tp_program(per, ranks.num_tp_ranks, aligned); })
        .launch(stream, {from, to}, {Scalar("tp_rank", ranks.tp_rank)});
}

Tensor mask_indices_by_tp(const Stream& stream, const TensorView& indices, const TensorParallel& ranks) {
    check_slots(mask_by_tp, "indices", stream, indices, i64, std::int64_t{1} << 40);
    check_ranks(ranks);
    Tensor out = Tensor::empty(stream, i64, indices.extents);
    mask_indices_by_tp(stream, indices, out, ranks);
    return out;
}

Program inplace_unique_group_indices_program(std::int64_t topk) {
    return record(unique, [=](Kernel& k) {
        const Dim tokens = k.dim("tokens");
        const auto ids = k.inout<i64>("group_indices", {tokens, topk}, {.align = 8});
        k.threads(thread_rows);
        const auto [m] = k.grid(ceil_div(tokens, thread_rows));
        const Index first = m * thread_rows;
        std::vector<Value<i64, 1>> seen;
        for (std::int64_t slot = 0; slot < topk; ++slot)
            seen.push_back(load(ids.window({thread_rows, 1}, {first, slot}), -1).squeeze(axis<1>));
        const auto row = first + coordinates({thread_rows}, axis<0>);
        for (std::size_t slot = 1; slot < seen.size(); ++slot) {
            auto repeated = seen[slot] == seen[0];
            for (std::size_t earlier = 1; earlier < slot; ++earlier)
                repeated = repeated | (seen[slot] == seen[earlier]);
            const auto at = select(repeated & (seen[slot] >= 0), row, -1);
            store(ids.window({thread_rows, 1}, {at, static_cast<std::int64_t>(slot)}),
                  full({thread_rows, 1}, Value<i64, 0>(-1)));
        }
    });
}

void inplace_unique_group_indices(const Stream& stream, const TensorView& group_indices, std::int64_t num_groups) {
    check_slots(unique, "group_indices", stream, group_indices, i64, 64);
    if (num_groups < 1 || num_groups > 128)
        throw UsageError(fmt::format("{}: num_groups is {}; from 1 to 128", unique, num_groups));
    const std::int64_t topk = group_indices.extents[1];
    if (group_indices.extents[0] == 0 || topk == 1) return;
    Engine::of(stream)
        .kernel(stream, KernelId(unique, {topk}), [&] { return inplace_unique_group_indices_program(topk); })
        .launch(stream, {group_indices});
}

}  // namespace tessera::moe

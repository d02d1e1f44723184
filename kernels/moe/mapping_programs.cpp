#include <algorithm>
#include <bit>

#include "dsl/front/kernel.hpp"
#include "kernels/moe/mapping.hpp"
#include "kernels/moe_mapping.hpp"

namespace tessera::moe {

namespace {

/// Sums of all elements up to and with each: doubling the reach through shared memory. Zeros stand before the line.
Value<i32, 1> inclusive_sums(Kernel& k, Value<i32, 1> v) {
    const std::int64_t n = v.extent(0);
    auto line = k.shared<i32>("line", {2 * n});
    store(line.window({n}, {0}), full({n}, Value<i32, 0>(0)));
    for (std::int64_t reach = 1; reach < n; reach *= 2) {
        store(line.window({n}, {n}), v);
        v = v + load(line.window({n}, {n - reach}));
    }
    return v;
}

}  // namespace

Program count_slots_program() {
    return record("count_slots", [](Kernel& k) {
        constexpr std::int64_t each = 256;
        const Dim count = k.dim("count"), positions = k.dim("positions"), experts = k.dim("experts"),
                  chunks = k.dim("chunks");
        const auto chunk_slots = k.scalar<i64>("chunk_slots");
        const auto ids = k.input<i64>("topk_idx", {count}, {.align = 8});
        // Twice the same memory: the first says how many experts and chunks there are.
        k.input<i32>("counts", {experts, chunks}, {.align = 4});
        const auto flat = k.inout<i32>("flat_counts", {experts * chunks}, {.align = 4});
        const auto expert = k.output<i32>("pos_to_expert", {positions}, {.align = 4});
        const auto token = k.output<i32>("pos_to_token", {positions}, {.align = 4});
        const auto slot = k.output<i32>("pos_to_token_topk", {positions}, {.align = 4});
        k.threads(each);
        const auto [m] = k.grid(ceil_div(max(count, positions), each));
        const auto blank = full({each}, Value<i32, 0>(-1));
        for (const auto& rows : {expert, token, slot}) store(rows.block({each}, {m}), blank);
        const auto id = load(ids.block({each}, {m}), -1);
        const auto chunk = (m * each + coordinates({each}, axis<0>)) / chunk_slots;
        const auto at = select((id >= 0) & (id < experts), id * chunks + chunk, -1);
        atomic_add(flat.window({each}, {at}), full({each}, Value<i32, 0>(1)));
    });
}

Program scan_chunks_program() {
    return record("scan_chunks", [](Kernel& k) {
        const Dim experts = k.dim("experts"), chunks = k.dim("chunks");
        const auto counts = k.inout<i32>("counts", {experts, chunks}, {.align = 4});
        const auto totals = k.output<i32>("totals", {experts}, {.align = 4});
        k.threads(256);
        const auto [e] = k.grid(experts);
        const auto v = load(counts.window({1, most_chunks}, {e, 0})).squeeze(axis<0>);
        const auto sums = inclusive_sums(k, v);
        store(counts.window({1, most_chunks}, {e, 0}), (sums - v).unsqueeze(axis<0>));
        store(totals.window({1}, {e}), reduce_sum(v, axis<0>));
    });
}

Program scan_experts_program(std::int64_t experts) {
    return record("scan_experts", [=](Kernel& k) {
        const auto wide = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(experts)));
        const auto alignment = k.scalar<i32>("alignment");
        const auto totals = k.input<i32>("totals", {experts}, {.align = 4});
        const auto start = k.output<i32>("expert_start", {experts}, {.align = 4});
        const auto end = k.output<i32>("expert_end", {experts}, {.align = 4});
        const auto rows = k.output<i32>("num_tokens_per_expert", {experts}, {.align = 4});
        k.threads(static_cast<int>(std::clamp<std::int64_t>(wide, 32, 1024)));
        k.grid(1);
        const auto total = load(totals.window({wide}, {0}));
        const auto aligned = (total + (alignment - 1)) / alignment * alignment;
        const auto sums = inclusive_sums(k, aligned);
        store(start.window({wide}, {0}), sums - aligned);
        store(end.window({wide}, {0}), sums);
        store(rows.window({wide}, {0}), aligned);
    });
}

Program place_slots_program(std::int64_t topk) {
    return record("place_slots", [=](Kernel& k) {
        constexpr std::int64_t warps = 8, lanes = 32, all = warps * lanes;
        const Dim count = k.dim("count"), positions = k.dim("positions"), experts = k.dim("experts");
        const auto chunks = k.scalar<i64>("chunks");
        const auto steps = k.scalar<i64>("steps");
        const auto ids = k.input<i64>("topk_idx", {count}, {.align = 8});
        const auto start = k.input<i32>("expert_start", {experts}, {.align = 4});
        const auto next = k.inout<i32>("counts", {experts * chunks}, {.align = 4});
        const auto to_pos = k.output<i32>("token_topk_to_pos", {count}, {.align = 4});
        const auto to_expert = k.output<i32>("pos_to_expert", {positions}, {.align = 4});
        const auto to_token = k.output<i32>("pos_to_token", {positions}, {.align = 4});
        const auto to_slot = k.output<i32>("pos_to_token_topk", {positions}, {.align = 4});
        k.threads(all);
        const auto [m] = k.grid(ceil_div(chunks, warps));
        const auto lane = coordinates({warps, lanes}, axis<1>).merge(axis<0>);
        const auto chunk = m * warps + coordinates({warps, lanes}, axis<0>).merge(axis<0>);
        k.serial(steps, [&](const Index& step) {
            const auto slot = (chunk * steps + step) * lanes + lane;
            const auto id = load(ids.window({all}, {select(chunk < chunks, slot, -1)}), -1);
            const auto valid = (id >= 0) & (id < experts);
            const auto expert = select(valid, id, -1);
            const auto counter = select(valid, id * chunks + chunk, -1);
            const auto before = load(next.window({all}, {counter}));
            const auto first = load(start.window({all}, {expert}));
            const auto equal = match(expert.split(axis<0>, lanes), axis<1>).merge(axis<0>);
            const auto own = cast<u32>(lane);
            const auto rank = before + bitcast<i32>(popcount(equal & ((Value<u32, 0>(1u) << own) - 1u)));
            const auto last = ((equal >> own) >> 1u) == 0u;
            const auto pos = select(valid, first + rank, -1);
            store(next.window({all}, {select(last, counter, -1)}), rank + 1);
            store(to_pos.window({all}, {select(chunk < chunks, slot, -1)}), pos);
            const auto row = cast<i64>(pos);
            store(to_expert.window({all}, {row}), cast<i32>(id));
            store(to_token.window({all}, {row}), cast<i32>(slot / topk));
            store(to_slot.window({all}, {row}), cast<i32>(slot));
        });
    });
}

}  // namespace tessera::moe

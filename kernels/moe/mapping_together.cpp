#include <algorithm>
#include <bit>
#include <vector>

#include "dsl/front/kernel.hpp"
#include "kernels/moe/mapping.hpp"
#include "kernels/moe_mapping.hpp"

namespace tessera::moe {

namespace {

constexpr std::int64_t lanes = 32, slot_bits = 13;  // of a slot in its block
constexpr std::int64_t padding_tile = 128;          // rows of an expert that are blanked at a time

using Numbers = Value<i32, 1>;

Numbers numbers(std::int64_t n) { return cast<i32>(coordinates({n}, axis<0>)); }
Numbers zeros(std::int64_t n) { return full({n}, Value<i32, 0>(0)); }

/// What one block does, step by step. A place is where a slot stands among those of its block, sorted by expert; a row
/// where it stands among all.
class MappingBlock {
public:
    MappingBlock(Kernel& kernel, std::int64_t topk, const MappingPlan& plan)
        : k(kernel), topk_(topk), plan_(plan), all_(plan.threads), each_(plan.threads * plan.steps) {}

    void record() {
        k.threads(static_cast<int>(all_), 1);
        block_ = cast<i32>(k.grid(blocks_).x);
        rank_slots();
        sum_over_rows();
        sort_slots();
        k.grid_sync();
        place_experts();
        place_slots();
        blank_padding();
    }

private:
    // What a thread can work out anew costs no register.
    Numbers warp() const { return numbers(all_) / static_cast<int>(lanes); }
    Numbers slot(std::int64_t step) const {
        const Numbers row = (block_ * static_cast<int>(all_ / lanes) + warp()) * static_cast<int>(plan_.steps);
        return (row + static_cast<int>(step)) * static_cast<int>(lanes) + numbers(all_) % static_cast<int>(lanes);
    }
    /// Of the row of counters and the step's expert; −1 where the slot has none.
    Numbers counter(std::int64_t step) const {
        const Numbers& expert = expert_[static_cast<std::size_t>(step)];
        const Numbers row = warp() * static_cast<int>(warp_rows_) + static_cast<int>(warp_rows_ > 1 ? step : 0);
        return select(expert >= 0, row * static_cast<int>(plan_.wide) + expert, -1);
    }

    /// The expert of each slot, and the slot's rank among those of its expert in the row of counters.
    void rank_slots() {
        std::vector<Value<i64, 1>> ids;
        for (std::int64_t s = 0; s < plan_.steps; ++s) ids.push_back(load(ids_.window({all_}, {slot(s)}), -1));
        store(counters_.whole(), zeros(rows_ * plan_.wide));
        store(sorted_.whole(), full({each_}, Value<i32, 0>(-1)));
        std::vector<Value<u32, 1>> equal;
        for (const auto& id : ids) {
            expert_.push_back(cast<i32>(select((id >= 0) & (id < experts_), id, -1)));
            equal.push_back(match(expert_.back().split(axis<0>, lanes), axis<1>).merge(axis<0>));
        }
        const auto own = bitcast<u32>(numbers(all_) % static_cast<int>(lanes));
        for (std::int64_t s = 0; s < plan_.steps; ++s) {
            const auto& mask = equal[static_cast<std::size_t>(s)];
            const auto last = ((mask >> own) >> 1u) == 0u;
            const auto below = bitcast<i32>(popcount(mask & ((Value<u32, 0>(1u) << own) - 1u)));
            Numbers rank = below;
            if (warp_rows_ < plan_.steps) rank = rank + load(counters_.window({all_}, {counter(s)}));
            store(counters_.window({all_}, {select(last, counter(s), -1)}), rank + 1);
            place_.push_back(rank);
        }
    }

    std::int64_t groups() const { return std::max<std::int64_t>(1, all_ / plan_.wide); }  // of warps
    std::int64_t group_warps() const { return all_ / lanes / groups(); }
    std::int64_t group_rows() const { return rows_ / groups(); }

    /// Counters become what the rows before have in their group of warps; base: where an expert's slots of a group
    /// begin in the block. The sums of all groups go to the other blocks.
    void sum_over_rows() {
        constexpr std::int64_t at_a_time = 8;
        const std::int64_t span = groups() * plan_.wide;
        const auto index = [&](std::int64_t row) {
            const Numbers at = numbers(span);
            const Numbers group = at / static_cast<int>(plan_.wide), column = at % static_cast<int>(plan_.wide);
            return (group * static_cast<int>(group_rows()) + static_cast<int>(row)) * static_cast<int>(plan_.wide) +
                   column;
        };
        Numbers sum = zeros(span);
        for (std::int64_t first = 0; first < group_rows(); first += at_a_time) {
            const std::int64_t end = std::min(first + at_a_time, group_rows());
            std::vector<Numbers> counts;
            for (std::int64_t r = first; r < end; ++r) counts.push_back(load(counters_.window({span}, {index(r)})));
            for (std::int64_t r = first; r < end; ++r) {
                store(counters_.window({span}, {index(r)}), sum);
                sum = sum + counts[static_cast<std::size_t>(r - first)];
            }
        }
        const auto by_group = sum.split(axis<0>, plan_.wide);
        const auto total = reduce_sum(by_group, axis<0>);
        store(block_counts_.window({1, plan_.wide}, {cast<i64>(block_), 0}), total);
        const auto begin = exclusive_sum(total.squeeze(axis<0>), axis<0>).unsqueeze(axis<0>);
        store(base_.whole(), (exclusive_sum(by_group, axis<0>) + begin).merge(axis<0>));
    }

    void sort_slots() {
        const Numbers group = warp() / static_cast<int>(group_warps()) * static_cast<int>(plan_.wide);
        for (std::int64_t s = 0; s < plan_.steps; ++s) {
            const Numbers& expert = expert_[static_cast<std::size_t>(s)];
            Numbers& place = place_[static_cast<std::size_t>(s)];
            const Numbers from = load(base_.window({all_}, {select(expert >= 0, group + expert, -1)}));
            place = place + from + load(counters_.window({all_}, {counter(s)}));
        }
        for (std::int64_t s = 0; s < plan_.steps; ++s) {
            const Numbers &expert = expert_[static_cast<std::size_t>(s)], place = place_[static_cast<std::size_t>(s)];
            store(sorted_.window({all_}, {select(expert >= 0, place, -1)}),
                  (expert << static_cast<int>(slot_bits)) | (slot(s) - block_ * static_cast<int>(each_)));
        }
    }

    /// From the counts of all blocks: where experts begin, and where in them this block's slots do.
    void place_experts() {
        const std::int64_t each = 8, rows = std::min(plan_.most_blocks, each * all_ / plan_.wide);
        Numbers before = zeros(plan_.wide), total = before;
        for (std::int64_t first = 0; first < plan_.most_blocks; first += rows) {
            const auto counts = load(block_counts_.window({rows, plan_.wide}, {first, 0}),
                                     {.per_thread = {std::max<std::int64_t>(1, rows * plan_.wide / all_), 1}});
            const auto earlier = cast<i32>(coordinates({rows, plan_.wide}, axis<0>)) < block_ - static_cast<int>(first);
            before = before + reduce_sum(select(earlier, counts, 0), axis<0>).squeeze(axis<0>);
            total = total + reduce_sum(counts, axis<0>).squeeze(axis<0>);
        }
        const Numbers aligned = (total + (alignment_ - 1)) / alignment_ * alignment_;
        const Numbers end = inclusive_sum(aligned, axis<0>), start = end - aligned;
        store(shift_.whole(), start + before - load(base_.window({plan_.wide}, {0})));
        store(used_end_.whole(), start + total);
        store(end_.whole(), end);
        k.when(cast<i64>(block_) == 0, [&] {
            store(expert_start_.window({plan_.wide}, {0}), start);
            store(expert_end_.window({plan_.wide}, {0}), end);
            store(expert_rows_.window({plan_.wide}, {0}), aligned);
        });
    }

    void place_slots() {
        for (std::int64_t s = 0; s < plan_.steps; ++s) {
            const Numbers& expert = expert_[static_cast<std::size_t>(s)];
            const Numbers row = place_[static_cast<std::size_t>(s)] + load(shift_.window({all_}, {expert}));
            store(to_pos_.window({all_}, {slot(s)}), select(expert >= 0, row, -1));
        }
        // In sorted order, so that neighbours write to neighbouring rows.
        for (std::int64_t s = 0; s < plan_.steps; ++s) {
            const Numbers entry = load(sorted_.window({all_}, {s * all_}));
            const Numbers expert = entry >> static_cast<int>(slot_bits);
            const Numbers slot = block_ * static_cast<int>(each_) + (entry & ((1 << slot_bits) - 1));
            const Numbers place = numbers(all_) + static_cast<int>(s * all_);
            const Numbers row = select(entry >= 0, place + load(shift_.window({all_}, {expert})), -1);
            write(row, expert, slot / static_cast<int>(topk_), slot);
        }
    }

    /// −1 from the last slot of each expert to its end, then from the last expert to the end of the buffer.
    void blank_padding() {
        const auto stride = cast<i32>(blocks_) * static_cast<int>(all_);
        const Numbers mine = block_ * static_cast<int>(all_) + numbers(all_);
        const Numbers blanks = full({all_}, Value<i32, 0>(-1));
        const auto turns = [&](const Index& count) {
            const auto each = bitcast<u32>(stride);
            return cast<i64>((cast<u32>(count) + (each - 1u)) / each);
        };
        k.serial((cast<i64>(alignment_) - 1 + (padding_tile - 1)) / padding_tile, [&](const Index& tile) {
            k.serial(turns(Index(plan_.wide * padding_tile)), [&](const Index& turn) {
                const Numbers item = mine + cast<i32>(turn) * stride;
                const Numbers expert = item / static_cast<int>(padding_tile);
                const Numbers row = load(used_end_.window({all_}, {expert})) +
                                    (item % static_cast<int>(padding_tile) + cast<i32>(tile * padding_tile));
                write(select(row < load(end_.window({all_}, {expert})), row, -1), blanks, blanks, blanks);
            });
        });
        const Index used = cast<i64>(load(end_[plan_.wide - 1]));
        k.serial(turns(max(positions_ - used, 0)), [&](const Index& turn) {
            write(cast<i32>(used) + mine + cast<i32>(turn) * stride, blanks, blanks, blanks);
        });
    }

    void write(const Numbers& row, const Numbers& expert, const Numbers& token, const Numbers& slot) {
        store(to_expert_.window({all_}, {row}), expert);
        store(to_token_.window({all_}, {row}), token);
        store(to_slot_.window({all_}, {row}), slot);
    }

    Kernel& k;
    const std::int64_t topk_;
    const MappingPlan plan_;
    const std::int64_t all_, each_;  // threads and slots of a block
    // Counters of a warp: a row for each step where memory has the room, or the steps count in turn, a barrier each.
    const std::int64_t warp_rows_ = plan_.steps * plan_.wide * all_ <= (1 << 19) ? plan_.steps : 1,
                       rows_ = all_ / lanes * warp_rows_;
    const Dim count_ = k.dim("count"), positions_ = k.dim("positions"), experts_ = k.dim("experts"),
              blocks_ = k.dim("blocks");
    const Value<i32, 0> alignment_ = k.scalar<i32>("alignment");
    const Global<i64, 1> ids_ = k.input<i64>("topk_idx", {count_}, {.align = 8});
    const Global<i32, 2> block_counts_ = k.inout<i32>("block_counts", {blocks_, plan_.wide}, {.align = 16});
    const Global<i32, 1> expert_start_ = k.output<i32>("expert_start", {experts_}, {.align = 4}),
                         expert_end_ = k.output<i32>("expert_end", {experts_}, {.align = 4}),
                         expert_rows_ = k.output<i32>("num_tokens_per_expert", {experts_}, {.align = 4}),
                         to_pos_ = k.output<i32>("token_topk_to_pos", {count_}, {.align = 4}),
                         to_expert_ = k.output<i32>("pos_to_expert", {positions_}, {.align = 4}),
                         to_token_ = k.output<i32>("pos_to_token", {positions_}, {.align = 4}),
                         to_slot_ = k.output<i32>("pos_to_token_topk", {positions_}, {.align = 4});
    const Shared<i32, 1> counters_ = k.shared<i32>("counters", {rows_ * plan_.wide}),  // [row, expert]
        sorted_ = k.shared<i32>("sorted", {each_}),                                    // expert and slot, by place
        base_ = k.shared<i32>("base", {groups() * plan_.wide}),                        // [group of warps, expert]
        shift_ = k.shared<i32>("shift", {plan_.wide}),                                 // from place to row
        used_end_ = k.shared<i32>("used_end", {plan_.wide}), end_ = k.shared<i32>("end", {plan_.wide});
    Value<i32, 0> block_ = Value<i32, 0>(0);
    std::vector<Numbers> expert_, place_;  // of each step
};

}  // namespace

MappingPlan mapping_plan(std::int64_t slots, std::int64_t experts, std::int64_t multiprocessors) {
    // Every block reads the counts of all: few large ones for many experts. More steps take more registers than a
    // thread has.
    constexpr std::int64_t most_counts = 16384, most_wide = 1024;
    const auto power = [](std::int64_t n) {
        return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
    };
    MappingPlan plan;
    plan.wide = power(std::max<std::int64_t>(experts, 32));
    plan.threads = plan.wide <= 128 ? 512 : 1024;
    const std::int64_t blocks = std::min(std::clamp<std::int64_t>(most_counts / plan.wide, 32, 128), multiprocessors);
    plan.steps = std::max<std::int64_t>(1, ceil_div(slots, plan.threads * blocks));
    plan.blocks = std::max<std::int64_t>(1, ceil_div(slots, plan.threads * plan.steps));
    plan.most_blocks = power(plan.blocks);
    if (plan.wide > most_wide || plan.steps > (plan.wide <= 256 ? 7 : 5)) return {};
    return plan;
}

Program map_slots_program(std::int64_t topk, const MappingPlan& plan) {
    return record("map_slots", [&](Kernel& k) { MappingBlock(k, topk, plan).record(); });
}

}  // namespace tessera::moe

#include <bit>
#include <optional>

#include "dsl/front/kernel.hpp"
#include "kernels/moe/gate_rows.hpp"
#include "kernels/moe_gate.hpp"

// A warp a token. Experts lie over its lanes, in groups; what follows the selection has a slot a lane. The logits of
// the chosen experts are read once more, by the lanes that need them.

namespace tessera::moe {

namespace {

constexpr std::int64_t rows = GroupTile::rows;
constexpr std::int64_t replica_step = 23333;  // a prime: which replica a token takes follows from its number

std::int64_t power_of_two(std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

class Gate {
public:
    Gate(Kernel& k, const GateForm& form)
        : form_(form),
          members_(form.experts / form.groups),
          tile_(group_tile(form.groups, members_)),
          width_(power_of_two(form.topk)),
          tokens_(k.dim("tokens")),
          logits_(k.input<f32>("logits", {tokens_, form.groups, members_}, {.align = 4})),
          flat_(k.input<f32>("flat_logits", {k.dim("logits_count")}, {.align = 4})),
          bias_(k.input<f32>("bias", {form.groups, members_}, {.align = 4})) {
        const std::int64_t logical = form.experts + form.shared;
        if (form.mask) mask_ = k.input<boolean>("mask", {tokens_}, {.align = 1});
        if (form.fixed) fixed_ = k.input<boolean>("fix_routing_mask", {tokens_}, {.align = 1});
        if (form.replicas > 0) {
            map_ = k.input<i32>("to_physical_map", {logical * form.replicas}, {.align = 4});
            counts_ = k.input<i32>("logical_count", {logical}, {.align = 4});
        }
        if (form.unmapped)
            unmapped_ = k.inout<i64>("unmapped_topk_idx", {tokens_, form.topk},
                                     {.align = 8, .strides = {k.dim("unmapped_pitch"), 1}});
        ids_ = k.output<i64>("topk_idx", {tokens_, form.topk + form.shared}, {.align = 8});
        weights_ = k.output<f32>("topk_weights", {tokens_, form.topk + form.shared}, {.align = 4});
        factor_ = k.scalar<f32>("factor");
        ep_rank_ = k.scalar<i64>("ep_rank");
        tp_rank_ = k.scalar<i64>("tp_rank");
        k.threads(tile_.threads);
        block_ = k.grid(ceil_div(tokens_, rows)).x;
    }

    void record() {
        const auto x = load_scores(logits_.block({rows, tile_.groups, tile_.members}, {block_, 0, 0}), tile_);
        const auto largest = reduce_max(reduce_max(x, axis<2>), axis<1>);
        std::optional<Value<f32, 3>> sum;
        if (form_.scoring == Scoring::softmax) {
            const auto powers = select(x == x, exp(x - largest), 0.0f);
            sum = reduce_sum(reduce_sum(powers, axis<2>), axis<1>);
        }
        const auto chosen = select_experts(x);
        const auto slot = coordinates({rows, width_}, axis<1>);
        auto logical = select(slot < form_.topk, chosen, -1);
        const auto routed = routed_rows();
        if (form_.fixed) {
            const auto given = load(unmapped_->window({rows, width_}, {block_ * rows, 0}), -1);
            logical = select(load(fixed_->block({rows}, {block_})).unsqueeze(axis<1>), given, logical);
        }
        const auto valid = (logical >= 0) & (logical < form_.experts);
        const auto score = scores_of(logical, valid, largest, sum);
        if (form_.unmapped)
            store(unmapped_->window({rows, width_}, {block_ * rows, 0}),
                  routed ? select(*routed, logical, -1) : logical);
        store_slots(routed, 0, logical, select(valid, weights_of(score, slot), 0.0f), valid);
        store_shared(routed);
    }

private:
    using Ids = Value<i64, 2>;
    using Mask = Value<boolean, 2>;

    /// Which rows are routed; all that there are without a mask.
    std::optional<Mask> routed_rows() const {
        if (!form_.mask) return std::nullopt;
        return load(mask_->block({rows}, {block_})).unsqueeze(axis<1>);
    }

    template <int R>
    Value<f32, R> score(const Value<f32, R>& x) const {
        if (form_.scoring == Scoring::sigmoid) return 1.0f / (1.0f + exp(-x));
        return sqrt(select(x > 20.0f, x, log1p(exp(x))));
    }

    /// The K first experts of each row by biased score; experts of groups that are not taken come behind all others.
    Ids select_experts(const Value<f32, 3>& x) const {
        const auto bias = load(bias_.block({tile_.groups, tile_.members}, {0, 0})).unsqueeze(axis<0>);
        const auto ranked = form_.scoring == Scoring::softmax ? x + bias : score(x) + bias;
        const auto flat = [](const auto& v) { return v.merge(axis<1>); };
        auto keys = rank_key(flat(ranked), axis<1>);
        if (form_.chosen_groups < form_.groups) {
            const auto sums = sum_of_best(ranked, 2).squeeze(axis<2>);
            const auto taken = in_top_k(sums, axis<1>, static_cast<int>(form_.chosen_groups)).unsqueeze(axis<2>);
            const std::int64_t groups = tile_.groups, members = tile_.members;
            const auto member = coordinates({rows, groups, members}, axis<2>);
            const auto group = coordinates({rows, groups, members}, axis<1>);
            const auto open = taken & (member < members_) & (group < form_.groups);
            // Behind NaN; those that are no experts at all behind these.
            const auto other = select((member < members_) & (group < form_.groups), Value<u64, 0>(0xFFFFFFFF00010000u),
                                      Value<u64, 0>(0xFFFFFFFF00020000u));
            keys = select(flat(open), keys, flat(other) | keys);
        }
        const auto place = cast<i64>(smallest(keys, axis<1>, form_.topk) & 0xFFFFu);
        return place / tile_.members * members_ + place % tile_.members;
    }

    /// Elements of a flat tensor at these places; 0 at negative ones.
    template <Element T>
    static Value<T, 2> gather(const Global<T, 1>& from, const Ids& at) {
        const std::int64_t columns = at.extent(1);
        return load(from.window({rows * columns}, {at.merge(axis<0>)})).split(axis<0>, columns);
    }
    Value<i64, 2> token() const { return block_ * rows + coordinates({rows, 1}, axis<0>); }

    Value<f32, 2> scores_of(const Ids& logical, const Mask& valid, const Value<f32, 3>& largest,
                            const std::optional<Value<f32, 3>>& sum) const {
        const auto at = select(valid, token() * form_.experts + logical, -1);
        const auto x = gather(flat_, at);
        const auto s =
            form_.scoring != Scoring::softmax ? score(x) : exp(x - largest.squeeze(axis<2>)) / sum->squeeze(axis<2>);
        return select(valid, s, 0.0f);
    }

    /// Sums in the order of the slots.
    Value<f32, 2> weights_of(const Value<f32, 2>& score, const Value<i64, 2>& slot) const {
        auto sum = full({rows, 1}, Value<f32, 0>(1e-20f));
        for (int s = 0; s < form_.topk; ++s) sum = sum + reduce_sum(select(slot == s, score, 0.0f), axis<1>);
        return score / sum * factor_;
    }

    /// From logical experts to what this rank calls them.
    Ids placed(const Ids& logical, Mask& valid) const {
        Ids physical = logical;
        if (form_.replicas > 0) {
            const auto count = cast<i64>(gather(*counts_, select(valid, logical, -1)));
            valid = valid & (count >= 1) & (count <= form_.replicas);
            const auto replica = (ep_rank_ + token() * replica_step) % max(count, 1);
            physical = cast<i64>(gather(*map_, select(valid, logical * form_.replicas + replica, -1)));
            physical = select(valid, physical, -1);
        }
        const auto owner = physical / form_.per_rank;
        const auto kept = (physical >= 0) & (owner % form_.num_tp_ranks == tp_rank_);
        return select(kept & valid, owner / form_.num_tp_ranks * form_.per_rank + physical % form_.per_rank, -1);
    }

    void store_slots(const std::optional<Mask>& routed, std::int64_t first, const Ids& logical,
                     const Value<f32, 2>& weight, Mask valid) {
        Ids ids = placed(logical, valid);
        auto kept = select(valid, weight, 0.0f);
        if (routed) {
            ids = select(*routed, ids, -1);
            kept = select(*routed, kept, 0.0f);
        }
        store_columns(*ids_, first, ids);
        store_columns(*weights_, first, kept);
    }
    /// The routed slots' tile is wider than K: behind it lie the shared ones.
    template <Element T>
    void store_columns(const Global<T, 2>& to, std::int64_t first, const Value<T, 2>& v) const {
        const std::int64_t columns = v.extent(1);
        if (form_.shared == 0 || first > 0 || columns == form_.topk)
            return store(to.window({rows, columns}, {block_ * rows, first}), v);
        const auto slot = coordinates({columns}, axis<0>);
        store(to.window({rows, columns}, {block_ * rows, select(slot < form_.topk, slot, -1)}), v);
    }

    void store_shared(const std::optional<Mask>& routed) {
        if (form_.shared == 0) return;
        const auto logical = form_.experts + coordinates({rows, form_.shared}, axis<1>);
        store_slots(routed, form_.topk, logical, full({rows, form_.shared}, Value<f32, 0>(1.0f)), logical >= 0);
    }

    const GateForm& form_;
    std::int64_t members_;
    GroupTile tile_;
    std::int64_t width_;
    Dim tokens_;
    Global<f32, 3> logits_;
    Global<f32, 1> flat_;
    Global<f32, 2> bias_;
    std::optional<Global<boolean, 1>> mask_, fixed_;
    std::optional<Global<i32, 1>> map_, counts_;
    std::optional<Global<i64, 2>> unmapped_, ids_;
    std::optional<Global<f32, 2>> weights_;
    Value<f32, 0> factor_{0.0f};
    Value<i64, 0> ep_rank_{0}, tp_rank_{0};
    Index block_{0};
};

}  // namespace

Program top2_sum_gate_program(const GateForm& form) {
    return record("top2_sum_gate", [&](Kernel& k) { Gate(k, form).record(); });
}

}  // namespace tessera::moe

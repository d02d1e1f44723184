#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/lower/tile_code.hpp"
#include "dsl/lower/warp.hpp"

// Selection: every thread sorts what it holds along the axis; then, once for each rank, the least head of all lanes
// wins and the thread that held it moves up its list. The lists live in names, not in registers with an index.

namespace tessera::lower {

namespace {

struct Comparator {
    std::size_t a, b;  // afterwards the smaller is at a
    bool low, high;    // which of the two results is looked at
};

/// Merge exchange (Batcher; Knuth 5.2.2 M), without what the first `wanted` results do not depend on.
std::vector<Comparator> sorting_network(std::size_t n, std::size_t wanted) {
    std::vector<Comparator> all;
    const std::size_t top = std::bit_ceil(n) / 2;
    for (std::size_t p = top; p > 0; p /= 2) {
        std::size_t q = top, r = 0, d = p;
        for (;;) {
            for (std::size_t i = 0; i + d < n; ++i)
                if ((i & p) == r) all.push_back({i, i + d, false, false});
            if (q == p) break;
            d = q - p, q /= 2, r = p;
        }
    }
    std::vector<bool> needed(n);
    std::fill_n(needed.begin(), wanted, true);
    std::vector<Comparator> kept;
    for (auto c = all.rbegin(); c != all.rend(); ++c) {
        if (!needed[c->a] && !needed[c->b]) continue;
        kept.push_back({c->a, c->b, needed[c->a], needed[c->b]});
        needed[c->a] = needed[c->b] = true;
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
}

}  // namespace

/// A name for a value as it is now, whatever else has that expression.
Ref TileCode::snapshot(const std::string& wanted, Ref value) {
    const int local = static_cast<int>(out_.locals.size());
    out_.locals.push_back(new_name(wanted));
    emit(ir::Let{local, value});
    return e_.make(value->type, value->shape, ir::Local{local});
}

/// The halves of a number of 64 bits: the compiler knows a minimum of 64 bits but compares anew for it.
TileCode::Halves TileCode::halves_of(Ref value) {
    if (bits_of(value->type) == 32) return {snapshot("key", value), nullptr};
    const Ref key = snapshot("key", value);
    const Element high = is_signed_integer(value->type) ? i32 : u32;
    return {snapshot("high", e_.make(high, {}, ir::Cast{e_.binary(ir::BinaryOp::shr, key, e_.number(key->type, 32))})),
            snapshot("low", e_.make(u32, {}, ir::Cast{key}))};
}

Ref TileCode::whole_of(const Halves& h, Element type) {
    if (!h.low) return h.high;
    const Ref high = e_.binary(ir::BinaryOp::shl, e_.make(type, {}, ir::Cast{h.high}), e_.number(type, 32));
    return e_.binary(ir::BinaryOp::bit_or, high, e_.make(type, {}, ir::Cast{h.low}));
}

TileCode::Halves TileCode::chosen(const std::string& name, Ref condition, const Halves& a, const Halves& b) {
    const auto one = [&](Ref x, Ref y) {
        return x ? snapshot(name, e_.make(x->type, {}, ir::Select{condition, x, y})) : nullptr;
    };
    return {one(a.high, b.high), one(a.low, b.low)};
}

/// The `wanted` smallest, ascending.
std::vector<TileCode::Halves> TileCode::sorted(std::vector<Halves> elements, int wanted, Element type) {
    const auto count = std::min(elements.size(), static_cast<std::size_t>(wanted));
    for (const Comparator& c : sorting_network(elements.size(), count)) {
        const Halves a = elements[c.a], b = elements[c.b];
        const Ref swap = snapshot("swap", e_.less(whole_of(b, type), whole_of(a, type)));
        if (c.low) elements[c.a] = chosen("sorted", swap, b, a);
        if (c.high) elements[c.b] = chosen("sorted", swap, a, b);
    }
    elements.resize(count);
    return elements;
}

/// The least head of the lanes, and whether this thread holds it.
TileCode::Halves TileCode::least_of_lanes(const Halves& head, const Layout& layout, int axis, Ref& won) {
    const auto all = [&](Ref v) {
        return snapshot("first", e_.make(v->type, {}, ir::WarpReduce{ir::ReduceOp::min, v}));
    };
    const auto equal = [&](Ref a, Ref b) { return e_.binary(ir::BinaryOp::eq, a, b); };
    if (owns_warp(layout, axis)) {  // the high halves decide, then the low ones of those that have the winning one
        Halves winner{all(head.high), nullptr};
        won = snapshot("level", equal(head.high, winner.high));
        if (!head.low) return winner;
        winner.low = all(e_.make(u32, {}, ir::Select{won, head.low, identity(ir::ReduceOp::min, u32)}));
        won = snapshot("won", e_.both(won, equal(head.low, winner.low)));
        return winner;
    }
    const Element type = !head.low ? head.high->type : head.high->type == i32 ? i64 : u64;
    Halves winner = head;
    for (int mask : lane_masks(layout, axis)) {
        const auto partner = [&](Ref v) {
            return v ? snapshot("other", e_.make(v->type, {}, ir::Shuffle{v, mask})) : nullptr;
        };
        const Halves other{partner(winner.high), partner(winner.low)};
        const Ref nearer = snapshot("less", e_.less(whole_of(other, type), whole_of(winner, type)));
        winner = chosen("first", nearer, other, winner);
    }
    won = snapshot("won", equal(whole_of(head, type), whole_of(winner, type)));
    return winner;
}

/// One line of the tile: sorts what this thread holds of it, then finds rank after rank.
void TileCode::select_line(Iteration& it, Ref node, const RegisterTile& result, const Position& kept,
                           const std::vector<int>& along) {
    const auto& op = *node->as<ir::Least>();
    const auto axis = static_cast<std::size_t>(op.axis);
    const Layout& layout = plan_.layout(op.value);
    Run run{along, {}, 1};
    for (int d : along) {
        run.counts.push_back(it.digits[static_cast<std::size_t>(d)].extent);
        run.length *= run.counts.back();
    }
    std::vector<Halves> list;
    for (std::int64_t i = 0; i < run.length; ++i) {
        set_lane(it, run, i);
        list.push_back(halves_of(element(it, op.value, it.root)));
    }
    set_lane(it, run, 0);
    const Halves past = halves_of(identity(ir::ReduceOp::min, node->type));
    const AxisModes& own = result.layout.axes[axis];
    RegisterTile line = result;  // the result as if the axis were not there
    line.layout.axes[axis].clear(), line.strides[axis].clear();
    std::int64_t lane = 0;
    const Ref word = word_index(it, line, kept, lane);
    const bool lanes = !lane_masks(layout, op.axis).empty();
    list = sorted(std::move(list), op.count, node->type);
    for (int rank = 0; rank < op.count; ++rank) {
        Ref won = nullptr;
        const Halves winner = lanes ? least_of_lanes(list.front(), layout, op.axis, won) : list.front();
        if (rank >= op.first) {
            const std::int64_t at = rank - op.first;
            const Ref value = whole_of(winner, node->type);
            const bool on_lanes = !own.empty() && own.back().thread();
            const Ref mine = e_.binary(ir::BinaryOp::eq, e_.mod(e_.thread(), node->shape[op.axis]), e_.i32(at));
            const Ref here = e_.make(node->type, {}, ir::Register{result.array, word});
            if (on_lanes)
                emit(ir::Set{result.array, word, e_.make(node->type, {}, ir::Select{mine, value, here})});
            else
                emit(ir::Set{result.array, e_.add(word, e_.i32(own.empty() ? 0 : at * result.strides[axis].back())),
                             value});
        }
        const auto left = std::min(list.size(), static_cast<std::size_t>(op.count - 1 - rank));
        for (std::size_t i = 0; i < left; ++i) {
            const Halves next = i + 1 < list.size() ? list[i + 1] : past;
            list[i] = lanes ? chosen("next", won, next, list[i]) : next;
        }
        list.resize(left);
    }
}

void TileCode::least(Ref node) {
    const auto& op = *node->as<ir::Least>();
    const Layout& layout = plan_.layout(op.value);
    const auto axis = static_cast<std::size_t>(op.axis);
    for (const Mode& m : layout.axes[axis])
        if (m.thread() && warps_of(m).extent > 1)
            throw UsageError(place_,
                             fmt::format("a selection along axis {} of a tile {} whose elements lie in several warps; "
                                         "load it with per_thread and lanes = 32, so that a warp holds a whole line",
                                         op.axis, text_of(layout)));
    const Layout own = least_layout(layout, op);
    const RegisterTile result = declare(own, node->type, -1, 1, "least");
    each_word(out_.arrays[static_cast<std::size_t>(result.array)].words,
              [&](Ref i) { emit(ir::Set{result.array, i, identity(ir::ReduceOp::min, node->type)}); });
    Iteration it(layout, e_, threads_);
    prepare(it, {op.value});
    std::vector<int> along;
    for (int d : it.root[axis])
        if (!it.digits[static_cast<std::size_t>(d)].thread()) {
            it.expand(d, it.digits[static_cast<std::size_t>(d)].extent);
            along.push_back(d);
        }
    Position kept = it.root;
    kept[axis].clear();
    in_loops(it, [&] { it.each_constant(along, [&] { select_line(it, node, result, kept, along); }); });
    tiles_[node->id] = own == plan_.layout(node) ? result : converted(result, node->shape, plan_.layout(node));
}

/// The elements that are compared must be the lanes of a warp, in order.
void TileCode::require_lanes(Ref match) const {
    const auto& op = *match->as<ir::Match>();
    const AxisModes& modes = plan_.layout(op.value).axes[static_cast<std::size_t>(op.axis)];
    if (modes.size() != 1 || modes[0].extent != warp_lanes || modes[0].stride != 1)
        throw UsageError(place_, fmt::format("match along axis {} of a tile {}: its 32 elements must be the lanes of a "
                                             "warp; load it with per_thread of 1 and lanes = 32",
                                             op.axis, text_of(plan_.layout(op.value))));
}

}  // namespace tessera::lower

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

/// The `wanted` smallest, ascending.
std::vector<Ref> TileCode::sorted(std::vector<Ref> elements, int wanted) {
    const auto select = [&](Ref condition, Ref a, Ref b) {
        return snapshot("sorted", e_.make(a->type, {}, ir::Select{condition, a, b}));
    };
    const auto count = std::min(elements.size(), static_cast<std::size_t>(wanted));
    for (const Comparator& c : sorting_network(elements.size(), count)) {
        const Ref a = elements[c.a], b = elements[c.b];
        const Ref swap = snapshot("swap", e_.less(b, a));
        if (c.low) elements[c.a] = select(swap, b, a);
        if (c.high) elements[c.b] = select(swap, a, b);
    }
    elements.resize(count);
    return elements;
}

Ref TileCode::least_of_lanes(Ref head, const Layout& layout, int axis) {
    if (owns_warp(layout, axis))
        if (const Ref all = over_warp(ir::ReduceOp::min, head)) return snapshot("winner", all);
    for (int mask : lane_masks(layout, axis))
        head = snapshot("winner", fold(ir::ReduceOp::min, head, e_.make(head->type, {}, ir::Shuffle{head, mask})));
    return head;
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
    RegisterTile result = declare(own, node->type, -1, 1, "least");
    const bool on_lanes = !own.axes[axis].empty() && own.axes[axis].back().thread();
    const std::int64_t stride = on_lanes || own.axes[axis].empty() ? 0 : result.strides[axis].back();
    if (on_lanes || own.axes[axis].empty() || op.count - op.first < node->shape[op.axis])
        each_word(out_.arrays[static_cast<std::size_t>(result.array)].words,
                  [&](Ref i) { emit(ir::Set{result.array, i, identity(ir::ReduceOp::min, node->type)}); });
    RegisterTile line = result;  // the result as if the axis were not there
    line.layout.axes[axis].clear(), line.strides[axis].clear();

    Iteration it(layout, e_, in_.threads);
    prepare(it, {op.value});
    std::vector<int> along;
    for (int d : it.root[axis])
        if (!it.digits[static_cast<std::size_t>(d)].thread()) {
            it.expand(d, it.digits[static_cast<std::size_t>(d)].extent);
            along.push_back(d);
        }
    Position kept = it.root;
    kept[axis].clear();
    const bool lanes = !lane_masks(layout, op.axis).empty();
    in_loops(it, [&] {
        it.each_constant(along, [&] {
            Run run{along, {}, 1};
            for (int d : along) {
                run.counts.push_back(it.digits[static_cast<std::size_t>(d)].extent);
                run.length *= run.counts.back();
            }
            std::vector<Ref> list;
            for (std::int64_t i = 0; i < run.length; ++i) {
                set_lane(it, run, i);
                list.push_back(snapshot("key", element(it, op.value, it.root)));
            }
            set_lane(it, run, 0);
            std::int64_t lane = 0;
            const Ref word = word_index(it, line, kept, lane);
            list = sorted(std::move(list), op.count);
            for (int rank = 0; rank < op.count; ++rank) {
                const Ref winner = lanes ? least_of_lanes(list.front(), layout, op.axis) : list.front();
                if (rank >= op.first) {
                    const std::int64_t at = rank - op.first;
                    const Ref here = e_.make(node->type, {}, ir::Register{result.array, word});
                    const Ref mine = e_.binary(ir::BinaryOp::eq, e_.mod(e_.thread(), node->shape[op.axis]), e_.i32(at));
                    if (on_lanes)
                        emit(ir::Set{result.array, word, e_.make(node->type, {}, ir::Select{mine, winner, here})});
                    else
                        emit(ir::Set{result.array, e_.add(word, e_.i32(at * stride)), winner});
                }
                const auto left = std::min(list.size(), static_cast<std::size_t>(op.count - 1 - rank));
                if (left == 0) continue;
                const Ref won = lanes ? snapshot("won", e_.binary(ir::BinaryOp::eq, list.front(), winner)) : nullptr;
                for (std::size_t i = 0; i < left; ++i) {
                    const Ref next = i + 1 < list.size() ? list[i + 1] : identity(ir::ReduceOp::min, node->type);
                    list[i] = won ? snapshot("next", e_.make(node->type, {}, ir::Select{won, next, list[i]})) : next;
                }
                list.resize(left);
            }
        });
    });
    tiles_[node->id] = own == plan_.layout(node) ? result : converted(result, node->shape, plan_.layout(node));
}

}  // namespace tessera::lower

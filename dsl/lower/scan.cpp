#include <algorithm>
#include <functional>

#include "dsl/base/error.hpp"
#include "dsl/lower/tile_code.hpp"
#include "dsl/lower/warp.hpp"

// Running sums along an axis whose elements lie, from the inner to the outer ones, in a thread's own registers, over
// lanes, over warps and again in registers: each step sums what the ones inside have left. Lanes find what stands
// before them by the butterflies that sum them up; warps through shared memory.

namespace tessera::lower {

/// The digits of the axis that is summed along, outermost first.
struct ScanAxis {
    std::size_t axis;
    std::vector<int> outer, threads, inner;
    std::vector<int> slots() const {
        std::vector<int> all = outer;
        all.insert(all.end(), inner.begin(), inner.end());
        return all;
    }
};

namespace {

/// Nothing if the axis' digits come in another order than outer slots, warps, lanes, inner slots.
std::optional<ScanAxis> scan_axis(const Iteration& it, int axis) {
    ScanAxis result{static_cast<std::size_t>(axis), {}, {}, {}};
    bool warps = false;
    const std::vector<int>& digits = it.root[result.axis];
    for (auto d = digits.rbegin(); d != digits.rend(); ++d) {
        const Digit& digit = it.digits[static_cast<std::size_t>(*d)];
        std::vector<int>& part = digit.thread() ? result.threads : result.threads.empty() ? result.inner : result.outer;
        part.insert(part.begin(), *d);
        if (!digit.thread()) continue;
        const Mode mode{digit.extent, digit.stride};
        if (!result.outer.empty() || (warps && lanes_of(mode).extent > 1)) return std::nullopt;
        warps = warps || warps_of(mode).extent > 1;
    }
    return result;
}

std::int64_t count_of(const Iteration& it, const std::vector<int>& digits) {
    std::int64_t n = 1;
    for (int d : digits) n *= it.digits[static_cast<std::size_t>(d)].extent;
    return n;
}

/// Sets written-out digits, outermost first, to the index-th combination.
void put(Iteration& it, const std::vector<int>& digits, std::int64_t index) {
    for (auto d = digits.rbegin(); d != digits.rend(); ++d) {
        Digit& digit = it.digits[static_cast<std::size_t>(*d)];
        digit.constant = index % digit.extent;
        index /= digit.extent;
    }
}

/// The layout of what is left of each line once its threads and inner slots are summed up.
Layout totals_layout(const Iteration& it, const Layout& layout, const ScanAxis& axis) {
    Layout result = layout;
    result.axes[axis.axis].clear();
    for (int d : axis.outer) result.axes[axis.axis].push_back({it.digits[static_cast<std::size_t>(d)].extent, 0});
    return canonical(std::move(result));
}

/// Which warps take part along the axis, outermost first.
AxisModes warps_along(const Layout& layout, std::size_t axis) {
    AxisModes warps;
    for (const Mode& m : layout.axes[axis])
        if (m.thread() && warps_of(m).extent > 1) warps.push_back(warps_of(m));
    return warps;
}

/// A position in a tile whose scanned axis has only the outer slots.
Position without_threads(const Iteration& it, const ScanAxis& axis) {
    Position at = it.root;
    at[axis.axis] = axis.outer;
    return at;
}

}  // namespace

Ref TileCode::sum_of(Ref a, Ref b) { return !a ? b : !b ? a : snapshot("sum", fold(ir::ReduceOp::sum, a, b)); }

/// What the lanes below this one hold, null if there are none; `total` becomes that of all lanes, if it is asked for.
Ref TileCode::lanes_before(const Iteration& it, const ScanAxis& axis, bool with_total, Ref& total) {
    Ref before = nullptr;
    std::vector<int> masks;
    for (auto d = axis.threads.rbegin(); d != axis.threads.rend(); ++d) {
        const Digit& digit = it.digits[static_cast<std::size_t>(*d)];
        const Mode lanes = lanes_of({digit.extent, digit.stride});
        for (std::int64_t k = 1; k < lanes.extent; k *= 2) masks.push_back(static_cast<int>(lanes.stride * k));
    }
    for (int mask : masks) {
        const Ref upper = e_.binary(ir::BinaryOp::eq, e_.mod(e_.div(e_.thread(), mask), 2), e_.i32(1));
        const Ref other = snapshot("other", e_.make(total->type, {}, ir::Shuffle{total, mask}));
        const Ref lower = before ? before : identity(ir::ReduceOp::sum, total->type);
        before = snapshot("before", e_.make(total->type, {}, ir::Select{upper, sum_of(other, before), lower}));
        if (with_total || mask != masks.back()) total = sum_of(total, other);
    }
    return before;
}

/// Sums of each line within what one warp holds between two outer slots; those between if nothing lies beyond.
void TileCode::scan_line(Iteration& it, const ScanAxis& axis, bool exclusive, const std::function<Ref()>& read,
                         const RegisterTile& sums, const RegisterTile* totals) {
    Ref below = nullptr;  // all outer slots so far
    const std::int64_t inner = count_of(it, axis.inner), outer = count_of(it, axis.outer);
    std::int64_t lane = 0;
    for (std::int64_t o = 0; o < outer; ++o) {
        put(it, axis.outer, o);
        const bool more = totals || o + 1 < outer;
        std::vector<Ref> up_to;
        for (std::int64_t i = 0; i < inner; ++i) {
            put(it, axis.inner, i);
            // Exclusive sums that nothing follows leave their last element out.
            if (exclusive && !more && axis.threads.empty() && i + 1 == inner) break;
            up_to.push_back(i == 0 ? snapshot("term", read()) : sum_of(up_to.back(), read()));
        }
        Ref total = up_to.empty() ? nullptr : up_to.back();
        const Ref start = sum_of(below, lanes_before(it, axis, more, total));
        for (std::int64_t i = 0; i < inner; ++i) {
            put(it, axis.inner, i);
            const Ref own = !exclusive ? up_to[static_cast<std::size_t>(i)]
                            : i > 0    ? up_to[static_cast<std::size_t>(i - 1)]
                                       : nullptr;
            const Ref sum = own || start ? sum_of(start, own) : identity(ir::ReduceOp::sum, sums.type);
            emit(ir::Set{sums.array, word_index(it, sums, it.root, lane), sum});
        }
        if (!totals && more)
            below = sum_of(below, total);
        else if (totals)
            emit(ir::Set{totals->array, word_index(it, *totals, without_threads(it, axis), lane), total});
    }
    put(it, axis.slots(), 0);
}

/// The totals of all warps along the axis, in every thread: as fold_warps hands them round, in an axis behind it.
RegisterTile TileCode::parts_of_warps(const RegisterTile& totals, const AxisModes& warps, const Shape& extents,
                                      std::size_t axis) {
    std::int64_t count = 1;
    for (const Mode& m : warps) count *= m.extent;
    Shape shape;
    for (int i = 0; i < extents.rank(); ++i) {
        shape.push_back(extents[i]);
        if (static_cast<std::size_t>(i) == axis) shape.push_back(count);
    }
    const ir::View view = scratch("parts", totals.type, shape);
    const auto behind = static_cast<std::ptrdiff_t>(axis + 1);
    Layout writers = totals.layout, readers = totals.layout;
    writers.axes.insert(writers.axes.begin() + behind, warps);
    readers.axes.insert(readers.axes.begin() + behind, AxisModes{{count, 0}});
    Iteration out(writers, e_, threads_);
    Position mine = out.root;
    mine.erase(mine.begin() + behind);
    emit(ir::Barrier{});
    const Address to = address(view, out, memory_name(view));
    in_loops(out, [&] { emit(ir::StoreVector{access(view, out, to, -1, 1, true), {read_lane(out, totals, mine)}}); });
    const RegisterTile parts = declare(readers, totals.type, static_cast<int>(readers.axes.size()) - 1, 1, "part");
    emit(ir::Barrier{});
    load_piece(view, nullptr, parts);
    return parts;
}

/// Adds what the warps before, and all warps of the outer slots before, hold of a line.
void TileCode::add_warps(Iteration& it, const ScanAxis& axis, const AxisModes& warps, const RegisterTile& sums,
                         const RegisterTile& parts) {
    Ref mine = e_.i32(0);
    std::int64_t count = 1, lane = 0;
    for (auto m = warps.rbegin(); m != warps.rend(); ++m) {
        mine = e_.add(mine, e_.mul(e_.mod(e_.div(e_.thread(), m->stride), m->extent), count));
        count *= m->extent;
    }
    const auto behind = static_cast<std::ptrdiff_t>(axis.axis + 1);
    const std::vector<std::int64_t>& strides = parts.strides[axis.axis + 1];
    const std::int64_t stride = strides.empty() ? 0 : strides.back();
    const std::int64_t outer = count_of(it, axis.outer);
    Ref below = nullptr;
    for (std::int64_t o = 0; o < outer; ++o) {
        put(it, axis.outer, o);
        RegisterTile line = parts;  // as if the warps' axis were not there
        line.layout.axes.erase(line.layout.axes.begin() + behind);
        line.strides.erase(line.strides.begin() + behind);
        const Ref first = word_index(it, line, without_threads(it, axis), lane);
        Ref so_far = nullptr, before = identity(ir::ReduceOp::sum, parts.type);
        for (std::int64_t w = 0; w < count; ++w) {
            const Ref part = e_.make(parts.type, {}, ir::Register{parts.array, e_.add(first, e_.i32(w * stride))});
            if (so_far)
                before =
                    snapshot("before", e_.make(parts.type, {}, ir::Select{e_.less(mine, e_.i32(w)), before, so_far}));
            if (w + 1 < count || o + 1 < outer) so_far = so_far ? sum_of(so_far, part) : snapshot("term", part);
        }
        const Ref start = sum_of(below, before);
        if (o + 1 < outer) below = sum_of(below, so_far);
        for (std::int64_t i = 0; i < count_of(it, axis.inner); ++i) {
            put(it, axis.inner, i);
            const Ref index = word_index(it, sums, it.root, lane);
            const Ref held = e_.make(sums.type, {}, ir::Register{sums.array, index});
            emit(ir::Set{sums.array, index, fold(ir::ReduceOp::sum, start, held)});
        }
    }
    put(it, axis.slots(), 0);
}

void TileCode::scan(Ref node) {
    const auto& op = *node->as<ir::Scan>();
    Layout layout = plan_.layout(node);
    std::optional<RegisterTile> moved;
    if (!scan_axis(Iteration(layout, e_, threads_), op.axis)) {
        Shape one;
        for (int i = 0; i < node->shape.rank(); ++i) one.push_back(1);
        layout = canonical(natural_layout(node->shape, op.axis, one, threads_));
        const RegisterTile* tile = tile_of(node, op.value);
        moved = converted(tile ? *tile : own_registers(op.value, "value"), node->shape, layout);
    }
    Iteration it(layout, e_, threads_);
    if (!moved) prepare(it, {node});
    const auto axis = scan_axis(it, op.axis);
    require_internal(axis.has_value(), "an axis lies over threads and registers in turns");
    for (int d : axis->slots()) it.expand(d, it.digits[static_cast<std::size_t>(d)].extent);
    const auto read = [&] { return moved ? read_lane(it, *moved, it.root) : element_of(it, node, op.value, it.root); };
    const auto each_line = [&](const std::function<void()>& body) {
        in_loops(it, [&] { it.each_constant(axis->slots(), body); });
    };
    const RegisterTile sums = declare(layout, node->type, -1, 1, "sums");
    const AxisModes warps = warps_along(layout, axis->axis);
    if (warps.empty()) {
        each_line([&] { scan_line(it, *axis, op.exclusive, read, sums, nullptr); });
    } else {
        const RegisterTile totals = declare(totals_layout(it, layout, *axis), node->type, -1, 1, "totals");
        each_line([&] { scan_line(it, *axis, op.exclusive, read, sums, &totals); });
        Shape extents = node->shape;
        extents[op.axis] = count_of(it, axis->outer);
        const RegisterTile parts = parts_of_warps(totals, warps, extents, axis->axis);
        each_line([&] { add_warps(it, *axis, warps, sums, parts); });
    }
    tiles_[node->id] = moved ? converted(sums, node->shape, plan_.layout(node)) : sums;
}

}  // namespace tessera::lower

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "dsl/base/error.hpp"
#include "dsl/ir/report.hpp"
#include "dsl/lower/tile_code.hpp"

namespace tessera::lower {

Element TileCode::memory_type(const ir::View& view) const {
    const auto i = static_cast<std::size_t>(view.memory);
    return view.space == ir::Space::global ? in_.tensors[i].type : out_.shared[i].type;
}

std::string TileCode::memory_name(const ir::View& view) const {
    const auto i = static_cast<std::size_t>(view.memory);
    return view.space == ir::Space::global ? in_.tensors[i].name : out_.shared[i].name;
}

/// The longest run of neighbours along an axis that a thread holds, up to `most`, written out in the iteration.
Run TileCode::run_along(Iteration& it, const std::vector<int>& axis, std::int64_t most) const {
    Run run;
    for (std::size_t i = axis.size(); i-- > 0 && run.length < most;) {
        const Digit& d = it.digits[static_cast<std::size_t>(axis[i])];
        if (d.extent == 1) continue;
        if (d.thread()) break;
        const std::int64_t count = std::gcd(most / run.length, d.extent & -d.extent);
        if (count == 1) break;
        run.digits.push_back(axis[i]);
        run.counts.push_back(count);
        run.length *= count;
        it.expand(axis[i], count);
        if (count != d.extent) break;
    }
    return run;
}

Ref TileCode::stride_of(const ir::View& view, std::size_t axis) {
    if (view.space == ir::Space::global)
        return scalar(in_.tensors[static_cast<std::size_t>(view.memory)].axes[axis].stride);
    const Shape& shape = out_.shared[static_cast<std::size_t>(view.memory)].shape;
    std::int64_t stride = 1;
    for (int i = shape.rank() - 1; i > static_cast<int>(axis); --i) stride *= shape[i];
    return e_.i32(stride);
}

/// Of the memory along an axis, i64.
Ref TileCode::extent_of(const ir::View& view, std::size_t axis) {
    if (view.space == ir::Space::global)
        return scalar(in_.tensors[static_cast<std::size_t>(view.memory)].axes[axis].extent);
    return e_.i64(out_.shared[static_cast<std::size_t>(view.memory)].shape[static_cast<int>(axis)]);
}

/// Indices as the threads need them that hold the data: laid out like its axis.
RegisterTile TileCode::index_tile(Ref index, const Iteration& it, std::size_t tile_axis) {
    Layout need{{AxisModes{}}};
    for (int d : it.root[tile_axis])
        need.axes[0].push_back(
            {it.digits[static_cast<std::size_t>(d)].extent, it.digits[static_cast<std::size_t>(d)].stride});
    need = canonical(std::move(need));
    const RegisterTile* tile = tile_of(nullptr, index);
    RegisterTile own;
    if (!tile) {
        own = declare(plan_.layout(index), index->type, -1, 1, "index");
        set_tile(index, own);
        tile = &own;
    }
    return tile->layout == need ? *tile : converted(*tile, index->shape, need);
}

/// A bounds check compares what varies inside a thread, in 32 bits, with what is left of the axis from the thread's
/// first element on. Indices are compared as they are, without a sign, so that negative ones are outside too.
Ref TileCode::limit_of(const ir::View& view, std::size_t axis, const Address& address, const std::string& name) {
    const Ref extent = extent_of(view, axis);
    if (const auto indices = address.indices.find(axis); indices != address.indices.end()) {
        if (indices->second.type != Element::i32) return e_.make(u64, {}, ir::Bitcast{extent});
        const Ref reach = e_.binary(ir::BinaryOp::min, extent, e_.i64(std::int64_t{1} << 31));
        return name_value(name + "_end", e_.make(u32, {}, ir::Cast{reach}));
    }
    if (view.space == ir::Space::shared) return nullptr;
    const ir::ViewAxis& a = view.axes[axis];
    if (a.extent == 1 ||
        facts_.inside(a.offset, a.extent, in_.tensors[static_cast<std::size_t>(view.memory)].axes[axis].extent))
        return nullptr;
    const Ref left = e_.binary(ir::BinaryOp::sub, extent, address.base[axis]);
    const Ref bounded = e_.binary(ir::BinaryOp::max, e_.binary(ir::BinaryOp::min, left, e_.i64(0x7FFFFFFF)), e_.i64(0));
    return name_value(name == "at" ? "left" : name + "s_left", e_.narrow(bounded));
}

/// Whether an element lies inside along an axis; null if it always does. `local`: its coordinate's part that varies
/// inside the thread, or its index.
Ref TileCode::in_bounds(const ir::View& view, std::size_t axis, const Address& address, Ref local, Ref coordinate) {
    const Ref offset = view.axes[axis].offset;
    const auto limit = address.limits.find(axis);
    if (!offset->scalar()) return e_.less(e_.make(limit->second->type, {}, ir::Bitcast{local}), limit->second);
    const Ref extent = in_.tensors[static_cast<std::size_t>(view.memory)].axes[axis].extent;
    Ref inside = nullptr;
    if (limit != address.limits.end())
        inside = e_.less(local, limit->second);
    else if (!facts_.inside(offset, view.axes[axis].extent, extent))
        inside = e_.less(coordinate, scalar(extent));
    if (!facts_.non_negative(offset)) inside = e_.both(inside, e_.binary(ir::BinaryOp::ge, coordinate, e_.i64(0)));
    return inside;
}

/// Names the coordinates of this thread's first element, and its offset, ahead of the loops.
TileCode::Address TileCode::address(const ir::View& view, const Iteration& it, const std::string& name,
                                    bool with_offset) {
    static const char* const axis_names[][3] = {{"at", "", ""}, {"row", "col", ""}, {"plane", "row", "col"}};
    const bool global = view.space == ir::Space::global;
    const std::size_t rank = view.axes.size();
    Address result;
    std::size_t tile_axis = 0;
    bool additive = true;
    const auto axis_name = [&](std::size_t i) {
        return rank <= 3 ? std::string(axis_names[rank - 1][i]) : "i" + std::to_string(i);
    };
    for (std::size_t i = 0; i < rank; ++i) {
        if (global) additive = additive && in_.tensors[static_cast<std::size_t>(view.memory)].axes[i].inner == 1;
        if (!view.axes[i].offset->scalar()) {
            result.indices.emplace(i, index_tile(view.axes[i].offset, it, tile_axis++));
            result.base.push_back(global ? e_.i64(0) : e_.i32(0));
            continue;
        }
        const Ref offset = scalar(view.axes[i].offset);
        Ref c = global ? offset : e_.narrow(offset);
        if (!view.axes[i].picked) c = e_.add(c, it.thread_part(it.root[tile_axis++]));
        if (global) c = e_.widen(c);
        std::int64_t constant = 0;
        if (!constant_value(c, constant) && !c->as<ir::Local>()) c = name_value(axis_name(i), c);
        result.base.push_back(c);
    }
    for (std::size_t i = 0; i < rank; ++i)
        if (const Ref limit = limit_of(view, i, result, axis_name(i))) result.limits.emplace(i, limit);
    if (!additive || !with_offset) return result;
    Ref at = global ? e_.i64(0) : e_.i32(0);
    for (std::size_t i = 0; i < rank; ++i) at = e_.add(at, e_.mul(result.base[i], stride_of(view, i)));
    std::int64_t constant = 0;
    if (!constant_value(at, constant) && !at->as<ir::Local>()) at = name_value(name + "_at", at);
    result.at = at;
    return result;
}

/// Threads beyond those that the layout uses hold copies: the lowest of them acts. Null if there are none.
Ref TileCode::only_once(const Iteration& it) {
    std::vector<std::pair<std::int64_t, std::int64_t>> used;  // stride, extent
    for (const auto& axis : it.root)
        for (int d : axis)
            if (it.digits[static_cast<std::size_t>(d)].thread())
                used.emplace_back(it.digits[static_cast<std::size_t>(d)].stride,
                                  it.digits[static_cast<std::size_t>(d)].extent);
    used.emplace_back(threads_, 1);
    std::sort(used.begin(), used.end());
    Ref predicate = nullptr;
    std::int64_t next = 1;
    for (const auto& [stride, extent] : used) {
        if (stride > next) {  // [next, stride) names copies
            Ref q = e_.div(e_.thread(), next);
            if (stride < threads_) q = e_.mod(q, stride / next);
            predicate = e_.both(predicate, e_.binary(ir::BinaryOp::eq, q, e_.i32(0)));
        }
        next = std::max(next, stride * extent);
    }
    return predicate;
}

ir::Access TileCode::access(const ir::View& view, Iteration& it, const Address& address, int axis, int lanes,
                            bool once) {
    const bool global = view.space == ir::Space::global;
    const auto memory = static_cast<std::size_t>(view.memory);
    ir::Access access{view.space, view.memory, {}, 0, nullptr, nullptr, lanes};
    Ref offset = address.at ? address.at : e_.i64(0);
    std::size_t tile_axis = 0;
    for (std::size_t i = 0; i < view.axes.size(); ++i) {
        const bool picked = view.axes[i].picked;
        const auto indices = address.indices.find(i);
        const bool gathered = indices != address.indices.end();
        Ref local = e_.i32(0), index = nullptr;
        if (!picked) {
            if (gathered) index = read_lane(it, indices->second, {it.root[tile_axis]});
            local = !gathered ? it.slot_part(it.root[tile_axis]) : global ? e_.widen(index) : e_.narrow(index);
            if (static_cast<int>(tile_axis) == axis) access.axis = static_cast<int>(i);
            ++tile_axis;
        }
        const Ref coordinate = e_.add(address.base[i], global ? e_.widen(local) : local);
        access.coordinates.push_back(coordinate);
        if (address.at) {
            offset = e_.add(offset, e_.mul(local, stride_of(view, i)));
        } else {
            const ir::Axis& a = in_.tensors[memory].axes[i];
            if (a.inner == 1) {
                offset = e_.add(offset, e_.mul(coordinate, scalar(a.stride)));
            } else {
                offset = e_.add(offset, e_.mul(e_.div(coordinate, a.inner), scalar(a.stride)));
                offset = e_.add(offset, e_.mul(e_.mod(coordinate, a.inner), a.inner_stride));
            }
        }
        if (global || gathered)
            if (const Ref inside = in_bounds(view, i, address, gathered ? index : local, coordinate))
                access.predicate = e_.both(access.predicate, inside);
    }
    if (!global) {
        const ir::Swizzle& s = out_.shared[memory].swizzle;
        if (s.bits > 0) {
            const Ref high =
                e_.binary(ir::BinaryOp::bit_and, e_.binary(ir::BinaryOp::shr, offset, e_.i32(s.base + s.shift)),
                          e_.i32((1 << s.bits) - 1));
            offset = e_.binary(ir::BinaryOp::bit_xor, offset, e_.binary(ir::BinaryOp::shl, high, e_.i32(s.base)));
        }
    }
    access.offset = offset;
    if (once) access.predicate = e_.both(only_once(it), access.predicate);
    return access;
}

/// Elements that share bytes move together. `axis` is the tile's along which they lie, `most` the longest vector.
void TileCode::require_whole_bytes(const ir::View& view, const Run& run, int axis, int most) const {
    const Element type = memory_type(view);
    const int pack = packed_elements_of(type);
    if (run.length % pack == 0) return;
    const std::string what =
        fmt::format("{} holds {}, of which {} share bytes, but ", memory_name(view), name_of(type), pack);
    const std::int64_t extent =
        axis < 0 ? 1 : view.axes[static_cast<std::size_t>(tile_axes(view)[static_cast<std::size_t>(axis)])].extent;
    if (most % pack != 0 || extent % pack != 0)
        throw UsageError(place_, what + fmt::format("its pieces do not begin and end at multiples of {} along the "
                                                    "contiguous axis; make extents, offsets and strides such multiples "
                                                    "and record them with multiple_of and align",
                                                    pack));
    throw UsageError(place_,
                     what + fmt::format("the threads hold fewer side by side along its contiguous axis; load the "
                                        "tile with per_thread of at least {} along it",
                                        pack));
}

void TileCode::load_tile(Ref node) {
    const auto& load = *node->as<ir::Load>();
    const Layout& layout = plan_.layout(node);
    int axis = -1;
    const int most = longest_vector(in_, load.view, target_, axis);
    Iteration it(layout, e_, threads_);
    const int vector =
        axis < 0 ? 1 : static_cast<int>(run_along(it, it.root[static_cast<std::size_t>(axis)], most).length);
    const RegisterTile tile = declare(layout, node->type, axis, vector, memory_name(load.view) + "_tile");
    tiles_[node->id] = tile;
    load_piece(load.view, scalar(load.fill), tile, load.cache);
}

void TileCode::load_piece(const ir::View& view, Ref fill, const RegisterTile& tile, ir::Cache cache) {
    int axis = -1;
    const int most = view.space == ir::Space::global ? longest_vector(in_, view, target_, axis)
                                                     : longest_vector(out_, view, target_, axis);
    Iteration it(tile.layout, e_, threads_);
    Run run;
    if (axis >= 0) run = run_along(it, it.root[static_cast<std::size_t>(axis)], most);
    require_whole_bytes(view, run, axis, most);
    const Address base = address(view, it, memory_name(view));
    in_loops(it, [&] {
        it.each_constant(run.digits, [&] {
            set_lane(it, run, 0);
            ir::Access a = access(view, it, base, axis, static_cast<int>(run.length), false);
            a.cache = cache;
            std::int64_t lane = 0;
            const Ref index = word_index(it, tile, it.root, lane);
            emit(ir::LoadVector{a, tile.array, index, a.predicate ? fill : nullptr});
        });
    });
}

/// Stores a tile of registers as it lies.
void TileCode::store_registers(const ir::View& view, const RegisterTile& tile, ir::Cache cache) {
    int axis = -1;
    const int most = longest_vector(view.space == ir::Space::global ? in_ : out_, view, target_, axis);
    Iteration it(tile.layout, e_, threads_);
    Run run;
    if (axis >= 0) run = run_along(it, it.root[static_cast<std::size_t>(axis)], most);
    require_whole_bytes(view, run, axis, most);
    const std::vector<std::int64_t> c = it.coefficients(tile, it.root);
    for (std::size_t d = 0; d < c.size(); ++d)  // lanes of a word are written out
        if (c[d] % tile.pack != 0) it.expand(static_cast<int>(d), tile.pack / std::gcd<std::int64_t>(c[d], tile.pack));
    const int lanes = static_cast<int>(std::gcd<std::int64_t>(run.length, tile.pack));
    const Address base = address(view, it, memory_name(view));
    in_loops(it, [&] {
        it.each_constant(run.digits, [&] {
            const std::int64_t end =
                run.digits.empty() ? 1 : it.digits[static_cast<std::size_t>(run.digits.back())].expand;
            for (run.base = 0; run.base < end; run.base += run.digits.empty() ? 1 : run.counts.back()) {
                set_lane(it, run, 0);
                ir::Access a = access(view, it, base, axis, static_cast<int>(run.length), true);
                a.cache = cache;
                std::vector<Ref> words;
                for (std::int64_t first = 0; first < run.length; first += lanes) {
                    set_lane(it, run, first);
                    words.push_back(lanes == 1 ? read_lane(it, tile, it.root)
                                               : read_word(it, tile, it.root, run, first, lanes));
                }
                emit(ir::StoreVector{a, std::move(words)});
            }
        });
    });
}

/// A thread that holds a longer run than one access moves would leave gaps between the accesses of its neighbours: such
/// a tile goes through shared memory first, so that neighbours store side by side. False if the tile may stay as it is.
bool TileCode::store_regrouped(const ir::View& view, Ref value, int axis, int most, ir::Cache cache) {
    const Layout& layout = plan_.layout(value);
    const AxisModes& modes = layout.axes[static_cast<std::size_t>(axis)];
    const bool long_run = !modes.empty() && !modes.back().thread() && modes.back().extent > most;
    const bool full = most * bits_of(value->type) == target_.vector_bytes() * 8;
    const bool no_copies = slots_of(layout) * threads_ == value->shape.count();
    if (!long_run || !full || !no_copies || value->shape[axis] % most != 0) return false;
    Shape inner;
    for (int i = 0; i < value->shape.rank(); ++i) inner.push_back(i == axis ? most : 1);
    const Layout regrouped = natural_layout(value->shape, axis, inner, threads_);
    if (regrouped == layout) return false;
    Iteration it(layout, e_, threads_);
    prepare(it, {value});
    const RegisterTile own = declare(layout, value->type, preferred_axis(it, value), 4, "value");
    set_tile(value, own);
    store_registers(view, converted(own, value->shape, regrouped), cache);
    return true;
}

void TileCode::store_piece(const ir::View& view, Ref value, ir::Cache cache) {
    int axis = -1;
    const ir::Program& owner = view.space == ir::Space::global ? in_ : out_;
    const int most = longest_vector(owner, view, target_, axis);
    if (view.space == ir::Space::global && axis >= 0 && !value->scalar() &&
        store_regrouped(view, value, axis, most, cache))
        return;
    if (value->scalar()) {
        Iteration it(Layout{}, e_, threads_);
        const Address base = address(view, it, memory_name(view));
        ir::Access a = access(view, it, base, -1, 1, true);
        a.cache = cache;
        emit(ir::StoreVector{a, {scalar(value)}});
        return;
    }
    Iteration it(plan_.layout(value), e_, threads_);
    prepare(it, {value});
    Run run;
    if (axis >= 0) run = run_along(it, it.root[static_cast<std::size_t>(axis)], most);
    require_whole_bytes(view, run, axis, most);
    const int bits = register_bits_of(value->type);
    const int lanes =
        static_cast<int>(std::min<std::int64_t>(run.length, bits < 32 && value->type != boolean ? 32 / bits : 1));
    const Address base = address(view, it, memory_name(view));
    in_loops(it, [&] {
        it.each_constant(run.digits, [&] {
            // A value may be written out in longer pieces than a vector holds: packed words, a short swizzle.
            const std::int64_t end =
                run.digits.empty() ? 1 : it.digits[static_cast<std::size_t>(run.digits.back())].expand;
            for (run.base = 0; run.base < end; run.base += run.digits.empty() ? 1 : run.counts.back()) {
                set_lane(it, run, 0);
                ir::Access a = access(view, it, base, axis, static_cast<int>(run.length), true);
                a.cache = cache;
                std::vector<Ref> words;
                for (std::int64_t first = 0; first < run.length; first += lanes)
                    words.push_back(word(it, value, it.root, run, first, lanes));
                emit(ir::StoreVector{a, std::move(words)});
            }
        });
    });
}

/// One element at a time; of threads that hold copies one adds.
void TileCode::add_piece(const ir::View& view, Ref value) {
    Iteration it(value->scalar() ? Layout{} : plan_.layout(value), e_, threads_);
    prepare(it, {value});
    const Address base = address(view, it, memory_name(view));
    in_loops(it, [&] {
        it.each_constant(
            {}, [&] { emit(ir::AtomicAdd{access(view, it, base, -1, 1, true), element(it, value, it.root)}); });
    });
}

namespace {

/// What the record keeps of coordinates: see ir/report.hpp.
Ref place_of(Expressions& e, const std::vector<Ref>& coordinates) {
    const Ref first = e.make(u64, {}, ir::Cast{coordinates[0]});
    if (coordinates.size() == 1) return first;
    const Ref column = e.make(u64, {}, ir::Cast{coordinates[1]});
    return e.binary(ir::BinaryOp::bit_or, e.binary(ir::BinaryOp::shl, first, e.number(u64, ir::column_bits)),
                    e.binary(ir::BinaryOp::min, column, e.number(u64, static_cast<std::int64_t>(ir::last_column))));
}

}  // namespace

/// Reported by all threads that hold an element: the record keeps one. Of several elements a thread takes the first to
/// the record, so that what is seldom needed stands in the text once.
void TileCode::report_piece(const ir::Report& r) {
    Iteration it(r.bad->scalar() ? Layout{} : plan_.layout(r.bad), e_, threads_);
    RegisterTile moved;
    const bool elsewhere = !r.value->scalar() && !(plan_.layout(r.value) == plan_.layout(r.bad));
    if (elsewhere) moved = converted(own_registers(r.value, "value"), r.value->shape, plan_.layout(r.bad));
    prepare(it, elsewhere ? std::vector<Ref>{r.bad} : std::vector<Ref>{r.bad, r.value});
    const Address base = address(r.view, it, memory_name(r.view), false);
    const auto each = [&](const std::function<void(Ref, Ref, Ref)>& body) {
        in_loops(it, [&] {
            it.each_constant({}, [&] {
                const ir::Access at = access(r.view, it, base, -1, 1, false);
                const Ref bad = e_.both(at.predicate, element(it, r.bad, it.root));
                const Ref value = elsewhere ? read_lane(it, moved, it.root) : element(it, r.value, it.root);
                body(bad, place_of(e_, at.coordinates), value);
            });
        });
    };
    if ((r.bad->scalar() || slots_of(plan_.layout(r.bad)) == 1))
        return each([&](Ref bad, Ref place, Ref value) { emit(ir::ReportElement{r.rule, place, bad, value}); });

    const RegisterTile first = declare(Layout{}, u64, -1, 1, "first"), told = declare(Layout{}, i64, -1, 1, "told");
    const Ref zero = e_.i32(0), nowhere = e_.number(u64, -1);
    const Ref first_now = e_.make(u64, {}, ir::Register{first.array, zero});
    const Ref told_now = e_.make(i64, {}, ir::Register{told.array, zero});
    emit(ir::Set{first.array, zero, nowhere});
    emit(ir::Set{told.array, zero, e_.i64(0)});
    each([&](Ref bad, Ref place, Ref value) {
        const Ref earlier = e_.both(bad, e_.less(place, first_now));
        emit(ir::Set{told.array, zero, e_.make(i64, {}, ir::Select{earlier, value, told_now})});
        emit(ir::Set{first.array, zero, e_.make(u64, {}, ir::Select{earlier, place, first_now})});
    });
    emit(ir::ReportElement{r.rule, first_now, e_.binary(ir::BinaryOp::ne, first_now, nowhere), told_now});
}

}  // namespace tessera::lower

#include <algorithm>

#include "dsl/base/convert.hpp"
#include "dsl/base/error.hpp"
#include "dsl/lower/tile_code.hpp"
#include "dsl/lower/warp.hpp"

// A reduction folds, in this fixed order: the elements a thread holds, the lanes of its warp by butterflies, the warps
// through shared memory. What its layout does not spread costs nothing.

namespace tessera::lower {

namespace {

ir::BinaryOp binary_of(ir::ReduceOp op, Element type) {
    if (type == boolean) return op == ir::ReduceOp::max ? ir::BinaryOp::bit_or : ir::BinaryOp::bit_and;
    switch (op) {
        case ir::ReduceOp::dot:
        case ir::ReduceOp::sum: return ir::BinaryOp::add;
        case ir::ReduceOp::max: return ir::BinaryOp::max;
        case ir::ReduceOp::bit_or: return ir::BinaryOp::bit_or;
        default: return ir::BinaryOp::min;
    }
}

const char* name_of(ir::ReduceOp op) {
    switch (op) {
        case ir::ReduceOp::dot:
        case ir::ReduceOp::sum: return "sums";
        case ir::ReduceOp::max: return "maxima";
        case ir::ReduceOp::bit_or: return "joined";
        default: return "minima";
    }
}

}  // namespace

Ref TileCode::fold(ir::ReduceOp op, Ref a, Ref b) {
    return e_.make(a->type, a->shape, ir::Binary{binary_of(op, a->type), a, b});
}

Ref TileCode::identity(ir::ReduceOp op, Element type) {
    if (op == ir::ReduceOp::sum || op == ir::ReduceOp::dot)
        return is_float(type) ? e_.make(type, {}, ir::Constant{0}) : e_.number(type, 0);
    if (op == ir::ReduceOp::bit_or) return e_.number(type, 0);
    const bool low = op == ir::ReduceOp::max;
    if (type == f64) return e_.make(type, {}, ir::Constant{low ? 0xFFF0000000000000ull : 0x7FF0000000000000ull});
    if (is_float(type))
        return e_.make(
            type, {}, ir::Constant{low ? encode_float(type, -__builtin_inff()) : encode_float(type, __builtin_inff())});
    if (type == boolean) return e_.truth(!low);
    const int width = bits_of(type);
    if (is_unsigned_integer(type)) return e_.number(type, low ? 0 : -1);
    const std::int64_t least = -1 - static_cast<std::int64_t>((1ull << (width - 1)) - 1);
    return e_.number(type, low ? least : -(least + 1));
}

/// v of a tree |v| that is computed inside its only user.
Ref TileCode::magnitude_of(Ref value) const {
    const auto* u = value->as<ir::Unary>();
    const bool floats = u && !tiles_.count(value->id) && !plan_.conversion(value, u->value);
    return floats && u->op == ir::UnaryOp::abs ? u->value : nullptr;
}

/// Neighbours along the axis that are folded at a time, as they lie packed in words.
int TileCode::folded_together(const ir::Reduce& r, Element type, const Iteration& it, int& digit) const {
    int lanes = 1;
    if (r.op == ir::ReduceOp::bit_or) lanes = std::max(1, 32 / bits_of(type));
    if ((type == bf16 || type == f16) && r.op != ir::ReduceOp::sum) lanes = 2;
    digit = -1;
    for (int d : it.root[static_cast<std::size_t>(r.axis)]) {
        const Digit& along = it.digits[static_cast<std::size_t>(d)];
        if (lanes > 1 && !along.thread() && along.expand % lanes == 0) digit = d;
    }
    return digit < 0 ? 1 : lanes;
}

/// The axis beside the reduced one whose neighbours lie packed in words, which are then folded whole; −1 if there is
/// none. What warps exchange is not packed.
int TileCode::packed_beside(const ir::Reduce& r, Element type, const Layout& layout) {
    if (type != bf16 && type != f16) return -1;
    for (const Mode& m : layout.axes[static_cast<std::size_t>(r.axis)])
        if (m.thread() && warps_of(m).extent > 1) return -1;
    Iteration it(layout, e_, threads_);
    prepare(it, {r.value});
    for (std::size_t a = 0; a < it.root.size(); ++a) {
        const int d = it.innermost_slot(it.root[a]);
        if (static_cast<int>(a) != r.axis && d >= 0 && it.digits[static_cast<std::size_t>(d)].expand % 2 == 0)
            return static_cast<int>(a);
    }
    return -1;
}

/// Words that gather what each lane has seen, beside the result.
RegisterTile TileCode::partial_words(const RegisterTile& result, int lanes) {
    if (lanes == 1) return result;
    RegisterTile partial = result;
    for (auto& axis : partial.strides)
        for (std::int64_t& s : axis) s *= lanes;
    partial.pack = lanes;
    const ir::RegisterArray& whole = out_.arrays[static_cast<std::size_t>(result.array)];
    out_.arrays.push_back({new_name(lanes == 2 ? "pairs" : "quads"), result.type, lanes, whole.words,
                           (lanes == 2 ? "halves of " : "quarters of ") + whole.name});
    partial.array = static_cast<int>(out_.arrays.size()) - 1;
    emit(ir::Declare{partial.array});
    return partial;
}

/// result[index] = a · b + result[index], rounded once, for the product a · b.
void TileCode::add_product(Iteration& it, Ref product, Ref index, const RegisterTile& result) {
    const auto& factors = *product->as<ir::Binary>();
    const Ref a = element_of(it, product, factors.a, it.root), b = element_of(it, product, factors.b, it.root);
    const Ref old = e_.make(f32, {}, ir::Register{result.array, index});
    emit(ir::Set{result.array, index, e_.make(f32, {}, ir::Fma{a, b, old})});
}

/// How values are folded into words: a maximum of |·| compares the magnitudes of both halves of a word and clears the
/// signs once, at the end. It starts from NaN, which any value drops.
TileCode::Folding TileCode::folding_of(const ir::Reduce& r, Element type, int lanes) {
    Folding f{r.op, type, lanes, r.value, identity(r.op, type), false};
    const Ref magnitude = lanes == 2 && r.op == ir::ReduceOp::max ? magnitude_of(r.value) : nullptr;
    if (magnitude) f.value = magnitude, f.start = e_.make(type, {}, ir::Constant{0x7FFF}), f.by_magnitude = true;
    return f;
}

Ref TileCode::folded(const Folding& f, Ref a, Ref b) {
    return f.by_magnitude ? e_.make(a->type, a->shape, ir::Binary{ir::BinaryOp::max_magnitude, a, b})
                          : fold(f.op, a, b);
}

/// A word of the value in every lane.
Ref TileCode::splat(Ref value, int lanes) {
    if (lanes == 1) return value;
    return e_.make(value->type, {lanes}, ir::Pack{std::vector<Ref>(static_cast<std::size_t>(lanes), value)});
}

/// Folds v into a word.
void TileCode::fold_word(const RegisterTile& words, Ref index, const Folding& f, Ref v) {
    const Ref old = e_.make(f.type, f.lanes > 1 ? Shape{f.lanes} : Shape{}, ir::Register{words.array, index});
    emit(ir::Set{words.array, index, folded(f, old, v)});
}

/// Folds what each thread holds. What lies packed along the axis goes a word at a time; the lanes meet at the end.
void TileCode::fold_registers(Ref node, const RegisterTile& result) {
    const auto& r = *node->as<ir::Reduce>();
    Iteration it(plan_.layout(r.value), e_, threads_);
    prepare(it, {r.value});
    if (result.pack > 1) return fold_beside(node, result, it);
    int digit = -1;
    const int lanes = folded_together(r, node->type, it, digit);
    const RegisterTile partial = partial_words(result, lanes);
    const Folding f = folding_of(r, node->type, lanes);
    const auto word_count = out_.arrays[static_cast<std::size_t>(partial.array)].words;
    each_word(word_count, [&](Ref i) { emit(ir::Set{partial.array, i, splat(f.start, lanes)}); });

    Run run;
    if (digit >= 0) {
        const std::int64_t expand = it.digits[static_cast<std::size_t>(digit)].expand;
        run = Run{{digit}, {expand}, expand};
    }
    Position kept = it.root;
    kept[static_cast<std::size_t>(r.axis)].clear();
    in_loops(it, [&] {
        it.each_constant(run.digits, [&] {
            std::int64_t lane = 0;
            Ref sum = nullptr;
            if (r.op == ir::ReduceOp::dot)
                return add_product(it, r.value, word_index(it, partial, kept, lane), partial);
            for (std::int64_t first = 0; first < run.length; first += lanes) {
                const Ref v = lanes > 1 ? word(it, f.value, it.root, run, first, lanes) : element(it, f.value, it.root);
                sum = sum ? folded(f, sum, v) : v;
            }
            fold_word(partial, word_index(it, partial, kept, lane), f, sum);
        });
    });
    if (lanes == 1) return;
    each_word(word_count, [&](Ref i) {
        Ref w = e_.make(node->type, {lanes}, ir::Register{partial.array, i});
        if (f.by_magnitude) w = e_.make(node->type, w->shape, ir::Unary{ir::UnaryOp::abs, w});
        Ref all = e_.make(node->type, {}, ir::Lane{w, 0});
        for (int j = 1; j < lanes; ++j) all = fold(r.op, all, e_.make(node->type, {}, ir::Lane{w, j}));
        emit(ir::Set{result.array, i, f.by_magnitude ? fold(r.op, all, identity(r.op, node->type)) : all});
    });
}

/// The same where words hold neighbours along another axis, which stay side by side in the result.
void TileCode::fold_beside(Ref node, const RegisterTile& result, Iteration& it) {
    const auto& r = *node->as<ir::Reduce>();
    const int lanes = result.pack;
    const Folding f = folding_of(r, node->type, lanes);
    const auto word_count = out_.arrays[static_cast<std::size_t>(result.array)].words;
    each_word(word_count, [&](Ref i) { emit(ir::Set{result.array, i, splat(f.start, lanes)}); });
    Position kept = it.root;
    kept[static_cast<std::size_t>(r.axis)].clear();
    const std::vector<std::int64_t> c = it.coefficients(result, kept);
    Run run;
    for (std::size_t d = 0; d < c.size(); ++d)
        if (c[d] == 1) run = Run{{static_cast<int>(d)}, {it.digits[d].expand}, it.digits[d].expand};
    in_loops(it, [&] {
        it.each_constant(run.digits, [&] {
            for (std::int64_t first = 0; first < run.length; first += lanes) {
                const Ref v = word(it, f.value, it.root, run, first, lanes);
                set_lane(it, run, first);
                std::int64_t lane = 0;
                fold_word(result, word_index(it, result, kept, lane), f, v);
            }
        });
    });
    if (!f.by_magnitude) return;
    each_word(word_count, [&](Ref i) {
        const Ref w = e_.make(node->type, {lanes}, ir::Register{result.array, i});
        const Ref all = e_.make(node->type, {lanes}, ir::Unary{ir::UnaryOp::abs, w});
        emit(ir::Set{result.array, i, fold(r.op, all, splat(identity(r.op, node->type), lanes))});
    });
}

/// The reduction over all lanes of a warp by the instructions that do so; null if the type has none.
Ref TileCode::over_warp(ir::ReduceOp op, Ref value) {
    const auto all = [&](Ref v) { return e_.make(v->type, {}, ir::WarpReduce{op, v}); };
    if (value->type == i32 || value->type == u32 || value->type == boolean) return all(value);
    if (is_integer(value->type) && bits_of(value->type) < 32) {
        const Element wide = is_signed_integer(value->type) ? i32 : u32;
        return e_.make(value->type, {}, ir::Cast{all(e_.make(wide, {}, ir::Cast{value}))});
    }
    if (value->type != u64 || op == ir::ReduceOp::sum || op == ir::ReduceOp::bit_or) return nullptr;
    // The high halves decide; among the lanes that have the winning one, the low halves.
    const Ref wide = snapshot("wide", value);
    const Ref high = e_.make(u32, {}, ir::Cast{e_.binary(ir::BinaryOp::shr, wide, e_.number(u64, 32))});
    const Ref first = snapshot("high", all(high));
    const Ref rival = e_.make(
        u32, {},
        ir::Select{e_.binary(ir::BinaryOp::eq, high, first), e_.make(u32, {}, ir::Cast{wide}), identity(op, u32)});
    const Ref second = snapshot("low", all(rival));
    return e_.binary(ir::BinaryOp::bit_or,
                     e_.binary(ir::BinaryOp::shl, e_.make(u64, {}, ir::Cast{first}), e_.number(u64, 32)),
                     e_.make(u64, {}, ir::Cast{second}));
}

/// A warp's vote on what its threads hold: each folds its own, the lanes vote.
void TileCode::vote(Ref node) {
    const auto& v = *node->as<ir::WarpReduce>();
    Ref held = nullptr;
    if (v.value->scalar()) {
        held = scalar(v.value);
    } else {
        const RegisterTile own = declare(Layout{}, boolean, -1, 1, "held");
        Iteration it(plan_.layout(v.value), e_, threads_);
        prepare(it, {v.value});
        held = e_.make(boolean, {}, ir::Register{own.array, e_.i32(0)});
        emit(ir::Set{own.array, e_.i32(0), identity(v.op, boolean)});
        in_loops(it, [&] {
            it.each_constant(
                {}, [&] { emit(ir::Set{own.array, e_.i32(0), fold(v.op, held, element(it, v.value, it.root))}); });
        });
    }
    values_[node->id] = snapshot("vote", e_.make(boolean, {}, ir::WarpReduce{v.op, held}));
}

void TileCode::fold_lanes(const ir::Reduce& r, const RegisterTile& result, const Layout& layout) {
    const std::vector<int> masks = lane_masks(layout, r.axis);
    if (masks.empty()) return;
    const bool whole = r.op == ir::ReduceOp::sum ? masks.size() == 5 : owns_warp(layout, r.axis);
    each_word(out_.arrays[static_cast<std::size_t>(result.array)].words, [&](Ref i) {
        const Shape shape = result.pack > 1 ? Shape{result.pack} : Shape{};
        const Ref held = e_.make(result.type, shape, ir::Register{result.array, i});
        if (const Ref all = whole && result.pack == 1 ? over_warp(r.op, held) : nullptr)
            return emit(ir::Set{result.array, i, all});
        for (int mask : masks) {
            const Ref mine = e_.make(result.type, shape, ir::Register{result.array, i});
            emit(ir::Set{result.array, i, fold(r.op, mine, e_.make(result.type, shape, ir::Shuffle{mine, mask}))});
        }
    });
}

void TileCode::fold_warps(const ir::Reduce& r, const RegisterTile& result, const Layout& layout, const Shape& extents) {
    const auto axis = static_cast<std::size_t>(r.axis);
    AxisModes parts;
    std::int64_t count = 1;
    for (const Mode& m : layout.axes[axis])
        if (m.thread() && warps_of(m).extent > 1) {
            parts.push_back(warps_of(m));
            count *= parts.back().extent;
        }
    if (count == 1) return;
    Shape shape = extents;  // the parts lie where the axis was, so that neighbours beside it stay neighbours
    shape[r.axis] = count;
    const ir::View view = scratch("parts", result.type, shape);

    Layout writers = result.layout;  // every warp writes its part
    writers.axes[axis] = parts;
    Iteration out(writers, e_, threads_);
    Position mine = out.root;
    mine[axis].clear();
    emit(ir::Barrier{});
    const Address to = address(view, out, memory_name(view));
    in_loops(out, [&] {
        const ir::Access a = access(view, out, to, -1, 1, true);
        emit(ir::StoreVector{a, {read_lane(out, result, mine)}});
    });

    Layout readers = result.layout;  // every thread reads all parts of what it holds
    readers.axes[axis] = {{count, 0}};
    const RegisterTile all = declare(readers, result.type, static_cast<int>(readers.axes.size()) - 1, 1, "part");
    emit(ir::Barrier{});
    load_piece(view, nullptr, all);
    Iteration in(readers, e_, threads_);
    const int part_digit = in.root[axis].back();
    in.expand(part_digit, count);
    Position held = in.root;
    held[axis].clear();
    in_loops(in, [&] {
        Ref sum = nullptr;
        for (std::int64_t p = 0; p < count; ++p) {
            in.digits[static_cast<std::size_t>(part_digit)].constant = p;
            const Ref part = read_lane(in, all, in.root);
            sum = sum ? fold(r.op, sum, part) : part;
        }
        std::int64_t lane = 0;
        emit(ir::Set{result.array, word_index(in, result, held, lane), sum});
    });
}

void TileCode::reduce(Ref node) {
    const auto& r = *node->as<ir::Reduce>();
    const Layout& layout = plan_.layout(r.value);
    const Layout own = canonical(project(layout, r.axis));
    const int beside = packed_beside(r, node->type, layout);
    RegisterTile result = declare(own, node->type, beside, beside < 0 ? 1 : 2, name_of(r.op));
    fold_registers(node, result);
    fold_lanes(r, result, layout);
    fold_warps(r, result, layout, node->shape);
    tiles_[node->id] = own == plan_.layout(node) ? result : converted(result, node->shape, plan_.layout(node));
}

}  // namespace tessera::lower

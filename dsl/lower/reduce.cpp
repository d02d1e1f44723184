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

/// Folds what each thread holds. What lies packed goes a word at a time; the lanes meet at the end.
void TileCode::fold_registers(Ref node, const RegisterTile& result) {
    const auto& r = *node->as<ir::Reduce>();
    Iteration it(plan_.layout(r.value), e_, in_.threads);
    prepare(it, {r.value});
    int digit = -1;
    const int lanes = folded_together(r, node->type, it, digit);
    const RegisterTile partial = partial_words(result, lanes);
    const Shape shape = lanes > 1 ? Shape{lanes} : Shape{};
    // A maximum of |·| compares magnitudes and clears the sign once, at the end. It starts from NaN, which any value
    // drops.
    const Ref magnitude = lanes == 2 && r.op == ir::ReduceOp::max ? magnitude_of(r.value) : nullptr;
    const Ref value = magnitude ? magnitude : r.value;
    const Ref neutral = identity(r.op, node->type);
    const Ref zero = magnitude ? e_.make(node->type, {}, ir::Constant{0x7FFF}) : neutral;
    const auto folded = [&](Ref a, Ref b) {
        return magnitude ? e_.make(a->type, a->shape, ir::Binary{ir::BinaryOp::max_magnitude, a, b}) : fold(r.op, a, b);
    };
    const auto word_count = out_.arrays[static_cast<std::size_t>(partial.array)].words;
    const std::vector<Ref> zeros(static_cast<std::size_t>(lanes), zero);
    const Ref start = lanes > 1 ? e_.make(node->type, shape, ir::Pack{zeros}) : zero;
    each_word(word_count, [&](Ref i) { emit(ir::Set{partial.array, i, start}); });

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
                const Ref v = lanes > 1 ? word(it, value, it.root, run, first, lanes) : element(it, value, it.root);
                sum = sum ? folded(sum, v) : v;
            }
            const Ref index = word_index(it, partial, kept, lane);
            const Ref old = e_.make(node->type, shape, ir::Register{partial.array, index});
            emit(ir::Set{partial.array, index, folded(old, sum)});
        });
    });
    if (lanes == 1) return;
    each_word(word_count, [&](Ref i) {
        Ref w = e_.make(node->type, shape, ir::Register{partial.array, i});
        if (magnitude) w = e_.make(node->type, shape, ir::Unary{ir::UnaryOp::abs, w});
        Ref all = e_.make(node->type, {}, ir::Lane{w, 0});
        for (int j = 1; j < lanes; ++j) all = fold(r.op, all, e_.make(node->type, {}, ir::Lane{w, j}));
        emit(ir::Set{result.array, i, magnitude ? fold(r.op, all, neutral) : all});
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

void TileCode::fold_lanes(const ir::Reduce& r, const RegisterTile& result, const Layout& layout) {
    const std::vector<int> masks = lane_masks(layout, r.axis);
    if (masks.empty()) return;
    const bool whole = r.op == ir::ReduceOp::sum ? masks.size() == 5 : owns_warp(layout, r.axis);
    each_word(out_.arrays[static_cast<std::size_t>(result.array)].words, [&](Ref i) {
        const Ref held = e_.make(result.type, {}, ir::Register{result.array, i});
        if (const Ref all = whole ? over_warp(r.op, held) : nullptr) return emit(ir::Set{result.array, i, all});
        for (int mask : masks) {
            const Ref mine = e_.make(result.type, {}, ir::Register{result.array, i});
            emit(ir::Set{result.array, i, fold(r.op, mine, e_.make(result.type, {}, ir::Shuffle{mine, mask}))});
        }
    });
}

void TileCode::fold_warps(const ir::Reduce& r, const RegisterTile& result, const Layout& layout, const Shape& extents) {
    AxisModes parts;
    std::int64_t count = 1;
    for (const Mode& m : layout.axes[static_cast<std::size_t>(r.axis)])
        if (m.thread() && warps_of(m).extent > 1) {
            parts.push_back(warps_of(m));
            count *= parts.back().extent;
        }
    if (count == 1) return;
    Shape shape = extents;
    shape.push_back(count);
    const int tile = scratch("parts", result.type, shape);
    const ir::View view = whole(tile);

    Layout writers = result.layout;  // every warp writes its part
    writers.axes.push_back(parts);
    Iteration out(writers, e_, in_.threads);
    const Position mine(out.root.begin(), out.root.end() - 1);
    emit(ir::Barrier{});
    const Address to = address(view, out, memory_name(view));
    in_loops(out, [&] {
        const ir::Access a = access(view, out, to, -1, 1, true);
        emit(ir::StoreVector{a, {read_lane(out, result, mine)}});
    });

    Layout readers = result.layout;  // every thread reads all parts of what it holds
    readers.axes.push_back({{count, 0}});
    const RegisterTile all = declare(readers, result.type, static_cast<int>(readers.axes.size()) - 1, 1, "part");
    emit(ir::Barrier{});
    load_piece(view, nullptr, all);
    Iteration in(readers, e_, in_.threads);
    for (int d : in.root.back()) in.expand(d, in.digits[static_cast<std::size_t>(d)].extent);
    const Position held(in.root.begin(), in.root.end() - 1);
    in_loops(in, [&] {
        Ref sum = nullptr;
        for (std::int64_t p = 0; p < count; ++p) {
            in.digits[static_cast<std::size_t>(in.root.back().back())].constant = p;
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
    RegisterTile result = declare(own, node->type, -1, 1, name_of(r.op));
    fold_registers(node, result);
    fold_lanes(r, result, layout);
    fold_warps(r, result, layout, node->shape);
    tiles_[node->id] = own == plan_.layout(node) ? result : converted(result, node->shape, plan_.layout(node));
}

}  // namespace tessera::lower

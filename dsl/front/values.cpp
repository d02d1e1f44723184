#include <bit>
#include <fmt/format.h>
#include <limits>

#include "dsl/base/convert.hpp"
#include "dsl/base/error.hpp"
#include "dsl/front/recorder.hpp"

// Elementwise nodes, reductions and changes of shape.

namespace tessera::detail {

Ref constant(Element type, double value, const Place& place) {
    if (type == tf32) throw UsageError(place, "tf32 has no numbers of its own; compute in f32");
    const std::uint64_t bits = convert_bits(f64, type, std::bit_cast<std::uint64_t>(value));
    return Recorder::active(place).make(type, {}, place, ir::Constant{bits});
}

Ref constant(Element type, std::int64_t value, const Place& place) {
    if (is_float(type)) return constant(type, static_cast<double>(value), place);
    const int width = bits_of(type);
    const std::uint64_t mask = width == 64 ? ~0ull : (1ull << width) - 1;
    const bool fits =
        type == i64 || (is_signed_integer(type) ? value >= -(1ll << (width - 1)) && value < (1ll << (width - 1))
                                                : value >= 0 && static_cast<std::uint64_t>(value) <= mask);
    if (!fits || (type == boolean && value > 1))
        throw UsageError(place, fmt::format("the number {} does not fit {}", value, name_of(type)));
    return Recorder::active(place).make(type, {}, place, ir::Constant{static_cast<std::uint64_t>(value) & mask});
}

Ref constant(Element type, std::uint64_t value, const Place& place) {
    const bool fits_signed = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (is_float(type)) return constant(type, static_cast<double>(value), place);
    if (fits_signed) return constant(type, static_cast<std::int64_t>(value), place);
    if (type != u64) throw UsageError(place, fmt::format("the number {} does not fit {}", value, name_of(type)));
    return Recorder::active(place).make(type, {}, place, ir::Constant{value});
}

namespace {

/// Pure numbers about the grid and loops are never worth a name of their own; tiles and data are.
bool is_index(Ref node) { return node->scalar() && node->type == i64; }

Ref elementwise(Element type, const Shape& shape, const Place& place, ir::Op op) {
    Recorder& r = Recorder::active(place);
    return shape.empty() && type == i64 ? r.make_index(type, place, std::move(op))
                                        : r.bind(type, shape, place, std::move(op));
}

/// What whole numbers cannot be divided or shifted by, where it is known.
void require_count(ir::BinaryOp op, Ref b, const Place& place) {
    const auto* c = b->as<ir::Constant>();
    if (!c || !is_integer(b->type)) return;
    if ((op == ir::BinaryOp::div || op == ir::BinaryOp::mod) && c->bits == 0)
        throw UsageError(place, "a whole number is divided by 0");
    if ((op == ir::BinaryOp::shl || op == ir::BinaryOp::shr) && c->bits >= static_cast<std::uint64_t>(bits_of(b->type)))
        throw UsageError(
            place, fmt::format("a shift of {} takes a count from 0 to {}", name_of(b->type), bits_of(b->type) - 1));
}

/// Index arithmetic on two numbers, so that offsets made of them are known while recording; null if it is none.
Ref folded(ir::BinaryOp op, Ref a, Ref b, const Place& place) {
    const auto *x = a->as<ir::Constant>(), *y = b->as<ir::Constant>();
    if (!x || !y || !is_index(a) || !is_index(b)) return nullptr;
    switch (op) {
        case ir::BinaryOp::add: return Recorder::active(place).make(i64, {}, place, ir::Constant{x->bits + y->bits});
        case ir::BinaryOp::sub: return Recorder::active(place).make(i64, {}, place, ir::Constant{x->bits - y->bits});
        case ir::BinaryOp::mul: return Recorder::active(place).make(i64, {}, place, ir::Constant{x->bits * y->bits});
        default: return nullptr;
    }
}

/// The extents that operands meet at: rank 0 spreads, extents of 1 spread.
Shape meet(Ref a, Ref b, const Place& place) {
    if (a->scalar()) return b->shape;
    if (b->scalar()) return a->shape;
    Shape shape = a->shape;
    for (int i = 0; i < shape.rank(); ++i) {
        if (b->shape.rank() != shape.rank() || (b->shape[i] != shape[i] && b->shape[i] != 1 && shape[i] != 1))
            throw UsageError(place, fmt::format("tiles of extents {} and {} do not meet; extents are equal or 1",
                                                text_of(a->shape), text_of(b->shape)));
        if (shape[i] == 1) shape[i] = b->shape[i];
    }
    return shape;
}

Ref spread(Ref value, const Shape& shape, const Place& place) {
    if (value->shape == shape) return value;
    return Recorder::active(place).make(value->type, shape, place, ir::Broadcast{value});
}

Ref reshaped(Ref value, const Shape& shape, const Place& place) {
    return Recorder::active(place).make(value->type, shape, place, ir::Reshape{value});
}

Recorder& using_value(Ref value, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(value, place);
    return r;
}

}  // namespace

Ref unary(ir::UnaryOp op, Ref value, const Place& place) {
    using_value(value, place);
    return elementwise(value->type, value->shape, place, ir::Unary{op, value});
}

Ref binary(ir::BinaryOp op, Ref a, Ref b, const Place& place) {
    using_value(a, place);
    using_value(b, place);
    require_count(op, b, place);
    if (const Ref number = folded(op, a, b, place)) return number;
    const Shape shape = meet(a, b, place);
    const bool comparison = op >= ir::BinaryOp::eq;
    const ir::Binary node{op, spread(a, shape, place), spread(b, shape, place)};
    if (comparison && is_index(a) && is_index(b)) return Recorder::active(place).make_index(boolean, place, node);
    return elementwise(comparison ? boolean : a->type, shape, place, node);
}

Ref fma(Ref a, Ref b, Ref c, const Place& place) {
    for (Ref v : {a, b, c}) using_value(v, place);
    const ir::Node product{0, a->type, meet(a, b, place), place, ir::Constant{0}};
    const Shape shape = meet(&product, c, place);
    return elementwise(a->type, shape, place,
                       ir::Fma{spread(a, shape, place), spread(b, shape, place), spread(c, shape, place)});
}

Ref lookup(Ref codes, const Ref (&table)[8], Ref signs, const Place& place) {
    using_value(codes, place);
    const auto as_codes = [&](Ref operand) {
        using_value(operand, place);
        if (!(meet(codes, operand, place) == codes->shape))
            throw UsageError(place, fmt::format("a table of extents {} for codes of extents {}; it has theirs, or 1",
                                                text_of(operand->shape), text_of(codes->shape)));
        return spread(operand, codes->shape, place);
    };
    ir::Lookup node{codes, {}, signs ? as_codes(signs) : nullptr};
    for (Ref entry : table) node.table.push_back(as_codes(entry));
    return elementwise(table[0]->type, codes->shape, place, std::move(node));
}

Ref select(Ref condition, Ref a, Ref b, const Place& place) {
    for (Ref v : {condition, a, b}) using_value(v, place);
    Shape shape = meet(a, b, place);
    if (!condition->scalar()) {
        const ir::Node like{0, a->type, shape, place, ir::Constant{0}};
        shape = meet(&like, condition, place);
    }
    return elementwise(a->type, shape, place,
                       ir::Select{spread(condition, shape, place), spread(a, shape, place), spread(b, shape, place)});
}

Ref cast(Element to, Ref value, const Place& place, bool bounded) {
    using_value(value, place);
    return elementwise(to, value->shape, place, ir::Cast{value, bounded});
}

Ref bitcast(Element to, Ref value, const Place& place) {
    using_value(value, place);
    return elementwise(to, value->shape, place, ir::Bitcast{value});
}

Ref reduce(ir::ReduceOp op, Ref value, int axis, const Place& place) {
    using_value(value, place);
    Shape shape = value->shape;
    shape[axis] = 1;
    return Recorder::active(place).bind(value->type, shape, place, ir::Reduce{op, value, axis});
}

Ref dot(Ref a, Ref b, int axis, const Place& place) {
    using_value(a, place), using_value(b, place);
    const Shape shape = meet(a, b, place);
    const Ref product = Recorder::active(place).make(
        f32, shape, place, ir::Binary{ir::BinaryOp::mul, spread(a, shape, place), spread(b, shape, place)});
    return reduce(ir::ReduceOp::dot, product, axis, place);
}

Ref reduce_all(ir::ReduceOp op, Ref value, const Place& place) {
    for (int axis = value->shape.rank() - 1; axis >= 0; --axis) value = reduce(op, value, axis, place);
    return reshaped(value, {}, place);
}

Ref warp_vote(ir::ReduceOp op, Ref mask, const Place& place) {
    using_value(mask, place);
    return Recorder::active(place).bind(boolean, {}, place, ir::WarpReduce{op, mask});
}

Ref scan(Ref value, int axis, bool exclusive, const Place& place) {
    using_value(value, place);
    return Recorder::active(place).bind(value->type, value->shape, place, ir::Scan{value, axis, exclusive});
}

Ref split(Ref value, int axis, std::int64_t inner, const Place& place) {
    using_value(value, place);
    const std::int64_t extent = value->shape[axis];
    if (inner < 1 || extent % inner != 0)
        throw UsageError(
            place,
            fmt::format("split of axis {} (extent {}) by {}: the tile's extent must be a multiple; take a larger tile, "
                        "what lies outside the tensor is masked",
                        axis, extent, inner));
    Shape shape;
    for (int i = 0; i < value->shape.rank(); ++i) {
        shape.push_back(i == axis ? extent / inner : value->shape[i]);
        if (i == axis) shape.push_back(inner);
    }
    return reshaped(value, shape, place);
}

Ref merge(Ref value, int axis, const Place& place) {
    using_value(value, place);
    Shape shape;
    for (int i = 0; i < value->shape.rank(); ++i) {
        if (i == axis + 1)
            shape[axis] *= value->shape[i];
        else
            shape.push_back(value->shape[i]);
    }
    return reshaped(value, shape, place);
}

Ref squeeze(Ref value, int axis, const Place& place) {
    using_value(value, place);
    if (value->shape[axis] != 1)
        throw UsageError(place, fmt::format("squeeze of axis {} of a tile {}: the extent must be 1; reduce it first",
                                            axis, text_of(value->shape)));
    Shape shape;
    for (int i = 0; i < value->shape.rank(); ++i)
        if (i != axis) shape.push_back(value->shape[i]);
    return reshaped(value, shape, place);
}

Ref unsqueeze(Ref value, int axis, const Place& place) {
    using_value(value, place);
    Shape shape;
    for (int i = 0; i <= value->shape.rank(); ++i) {
        if (i == axis) shape.push_back(1);
        if (i < value->shape.rank()) shape.push_back(value->shape[i]);
    }
    return reshaped(value, shape, place);
}

Ref permute(Ref value, const int* order, int rank, const Place& place) {
    using_value(value, place);
    ir::Permute node{value, {order, order + rank}};
    Shape shape;
    unsigned seen = 0;
    for (int axis : node.order) {
        if (axis < 0 || axis >= rank || (seen >> axis & 1u))
            throw UsageError(place,
                             fmt::format("permute of a tile {}: every axis from 0 to {} stands once in the order",
                                         text_of(value->shape), rank - 1));
        seen |= 1u << axis;
        shape.push_back(value->shape[axis]);
    }
    return Recorder::active(place).make(value->type, shape, place, std::move(node));
}

Ref broadcast_to(Ref value, const Shape& shape, const Place& place) {
    using_value(value, place);
    return spread(value, shape, place);
}

Ref coordinate(const Shape& shape, int axis, const Place& place) {
    return Recorder::active(place).make(i64, shape, place, ir::Coordinate{axis});
}

std::int64_t extent_of(Ref value, int axis, const Place& place) {
    Recorder::active(place).require_open(value, place);
    if (axis < 0 || axis >= value->shape.rank())
        throw UsageError(place, fmt::format("extent({}) of a tile {}: no such axis", axis, text_of(value->shape)));
    return value->shape[axis];
}

}  // namespace tessera::detail

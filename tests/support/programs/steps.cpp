#include "tests/support/programs/steps.hpp"

#include <algorithm>
#include <bit>

#include "dsl/front/selection.hpp"
#include "dsl/ir/node.hpp"

namespace tessera::test {
namespace {

using detail::Ref;
using ir::BinaryOp;
using ir::ReduceOp;
using ir::UnaryOp;

constexpr double float_limit = 1e6;  // of magnitudes in the pool, so that products stay far from infinity
constexpr std::int64_t largest_tile = 4096;

Place here(std::source_location at = std::source_location::current()) { return at; }

Ref number(Element type, double value) {
    if (is_integer(type) || type == boolean) return detail::constant(type, static_cast<std::int64_t>(value), here());
    return detail::constant(type, value, here());
}

Ref binary(BinaryOp op, Ref a, Ref b) { return detail::binary(op, a, b, here()); }

/// Shape of a op b, or rank 0 if the two do not meet.
Shape meet(const Shape& a, const Shape& b) {
    if (a.rank() != b.rank()) return {};
    Shape out = a;
    for (int i = 0; i < a.rank(); ++i) {
        if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return {};
        out[i] = std::max(a[i], b[i]);
    }
    if (out == a || out == b) return out;
    return spreads(out) && out.count() <= largest_tile ? out : Shape{};
}

/// Adds a result whose bound was computed without thought of its type.
void add(Pool& pool, Item item) {
    if (is_integer(item.type)) {
        item.bound = std::min(item.bound, largest(item.type) + 1);
        item.whole = true;
    } else if (item.bound > float_limit) {
        item = clamped(item, float_limit);
    }
    pool.add(item);
}

void float_arithmetic(Random& random, Pool& pool, const Item& a, const Item& b, const Shape& shape) {
    const bool whole = a.whole && b.whole;
    if (random.one_in(8)) {  // NaN never comes here: what the two say about it is tested elsewhere
        const BinaryOp op = random.pick({BinaryOp::min_nan, BinaryOp::max_nan});
        return add(pool, {binary(op, a.node, b.node), a.type, shape, std::max(a.bound, b.bound), whole});
    }
    switch (random.between(0, 5)) {
        case 0:
            return add(pool, {binary(BinaryOp::add, a.node, b.node), a.type, shape, 1.01 * (a.bound + b.bound), whole});
        case 1:
            return add(pool, {binary(BinaryOp::sub, a.node, b.node), a.type, shape, 1.01 * (a.bound + b.bound), whole});
        case 2:
            return add(pool, {binary(BinaryOp::mul, a.node, b.node), a.type, shape, 1.01 * a.bound * b.bound, whole});
        case 3: {
            const Ref above_one = binary(BinaryOp::add, detail::unary(UnaryOp::abs, b.node, here()), number(b.type, 1));
            return add(pool, {binary(BinaryOp::div, a.node, above_one), a.type, shape, a.bound, false});
        }
        case 4:
            return add(pool, {binary(BinaryOp::min, a.node, b.node), a.type, shape, std::max(a.bound, b.bound), whole});
        default:
            return add(pool, {binary(BinaryOp::max, a.node, b.node), a.type, shape, std::max(a.bound, b.bound), whole});
    }
}

void integer_arithmetic(Random& random, Pool& pool, const Item& a, const Item& b) {
    const double any = largest(a.type) + 1, either = std::max(a.bound, b.bound);
    const bool positive = is_unsigned_integer(a.type);
    const auto give = [&](Ref node, double bound) {
        add(pool, {node, a.type, node->shape, bound <= any ? bound : any, true});
    };
    switch (random.between(0, 10)) {
        case 0: return give(binary(BinaryOp::add, a.node, b.node), a.bound + b.bound);
        case 1: return give(binary(BinaryOp::sub, a.node, b.node), positive ? any : a.bound + b.bound);
        case 2: return give(binary(BinaryOp::mul, a.node, b.node), a.bound * b.bound);
        case 3: return give(binary(BinaryOp::min, a.node, b.node), either);
        case 4: return give(binary(BinaryOp::max, a.node, b.node), either);
        case 5: return give(binary(BinaryOp::bit_and, a.node, b.node), any);
        case 6: return give(binary(BinaryOp::bit_or, a.node, b.node), any);
        case 7: return give(binary(BinaryOp::bit_xor, a.node, b.node), any);
        default: break;
    }
    const auto shift = static_cast<double>(random.between(0, bits_of(a.type) - 1));
    const Ref small = binary(BinaryOp::add, binary(BinaryOp::bit_and, b.node, number(b.type, 7)), number(b.type, 1));
    switch (random.between(0, 3)) {
        case 0: return give(binary(BinaryOp::shl, a.node, number(a.type, shift)), any);
        case 1: return give(binary(BinaryOp::shr, a.node, number(a.type, shift)), a.bound);
        case 2: return give(binary(BinaryOp::div, a.node, small), a.bound);
        default: return give(binary(BinaryOp::mod, a.node, small), 8);
    }
}

}  // namespace

Item clamped(const Item& item, double limit) {
    if (is_integer(item.type) || item.bound <= limit) return item;
    Item out = item;
    out.node =
        binary(BinaryOp::max, binary(BinaryOp::min, item.node, number(item.type, limit)), number(item.type, -limit));
    out.bound = limit;
    return out;
}

void step_arithmetic(Random& random, Pool& pool) {
    const Item* found = pool.find(random, [](const Item& i) { return has_arithmetic(i.type); });
    if (found == nullptr) return;
    const Item a = *found;
    if (random.one_in(6)) {
        const bool negate = random.one_in(2) && !is_unsigned_integer(a.type);
        const Ref node = detail::unary(negate ? UnaryOp::neg : UnaryOp::abs, a.node, here());
        return add(pool, {node, a.type, a.shape, a.bound, a.whole});
    }
    Item b{number(a.type, 3), a.type, a.shape, 3, true};
    if (!random.one_in(4)) {
        found = pool.find(random, [&](const Item& i) { return i.type == a.type && !meet(a.shape, i.shape).empty(); });
        if (found != nullptr) b = *found;
    }
    const Shape shape = meet(a.shape, b.shape);
    if (is_integer(a.type))
        integer_arithmetic(random, pool, a, b);
    else
        float_arithmetic(random, pool, a, b, shape);
}

void step_select(Random& random, Pool& pool) {
    const Item* a = pool.find(random, [](const Item& i) { return has_arithmetic(i.type); });
    if (a == nullptr) return;
    const Item x = *a;
    const Item y = *pool.find(random, [&](const Item& i) { return i.type == x.type && i.shape == x.shape; });
    const BinaryOp op =
        random.pick({BinaryOp::eq, BinaryOp::ne, BinaryOp::lt, BinaryOp::le, BinaryOp::gt, BinaryOp::ge});
    Ref mask = binary(op, x.node, random.one_in(2) ? y.node : number(x.type, 2));
    if (random.one_in(3)) mask = detail::unary(UnaryOp::bit_not, mask, here());
    if (random.one_in(3)) {
        const Ref other = binary(BinaryOp::gt, y.node, number(y.type, 5));
        mask = binary(random.pick({BinaryOp::bit_and, BinaryOp::bit_or, BinaryOp::bit_xor}), mask, other);
    }
    const Item z = *pool.find(random, [&](const Item& i) { return i.shape == x.shape; });
    const Item w = *pool.find(random, [&](const Item& i) { return i.shape == x.shape && i.type == z.type; });
    add(pool, {detail::select(mask, z.node, w.node, here()), z.type, x.shape, std::max(z.bound, w.bound),
               z.whole && w.whole});
}

void step_cast(Random& random, Pool& pool) {
    const Item* found = pool.find(random, [](const Item&) { return true; });
    if (found == nullptr) return;
    Item a = *found;
    const Element to = random.pick({f32, f32, f32, bf16, e4m3, i32, i32, i8, i16, i64, u8, u16, u32});
    if (to == a.type) return;
    const bool from_float = is_float(a.type);
    if (is_integer(to) && from_float) {
        if (a.type == e4m3) return;
        if (is_unsigned_integer(to)) a.node = detail::unary(UnaryOp::abs, a.node, here());
        if (a.bound > largest(to)) return;  // what does not fit has no meaning
    }
    if (!from_float && (to == bf16 || to == e4m3) && a.bound > 1e6) return;
    double bound = a.bound;
    if (to == e4m3) bound = std::min(bound * 1.1, 448.0);
    if (to == bf16) bound *= 1.01;
    if (is_unsigned_integer(to) && !from_float) bound = largest(to) + 1;
    if (is_integer(to) && bound > largest(to)) bound = largest(to) + 1;
    Item out{detail::cast(to, a.node, here()), to, a.shape, bound, a.whole || is_integer(to)};
    if (to == e4m3) return pool.add(out);
    add(pool, out);
}

void step_bitcast(Random& random, Pool& pool) {
    const Item* found =
        pool.find(random, [](const Item& i) { return i.type == f32 || i.type == bf16 || i.type == e4m3; });
    if (found == nullptr) return;
    const Element to = found->type == f32    ? random.pick({u32, i32})
                       : found->type == bf16 ? random.pick({u16, i16})
                                             : u8;
    add(pool, {detail::bitcast(to, found->node, here()), to, found->shape, largest(to) + 1, true});
}

void step_lookup(Random& random, Pool& pool) {
    const Item* found = pool.find(random, [](const Item& i) { return i.type == f32 || i.type == bf16; });
    if (found == nullptr) return;
    const Item a = *found;
    const Element to = random.pick({u8, e4m3, e2m1});
    const auto fits = [&](const Item& i) { return meet(a.shape, i.shape) == a.shape; };
    Ref table[8];
    for (int i = 0; i < 8; ++i) {
        const Item* entry = random.one_in(3)
                                ? pool.find(random,
                                            [&](const Item& item) {
                                                return fits(item) && (to == e2m1 ? item.type == f32 : item.type == to);
                                            })
                                : nullptr;
        const auto code = [&] { return detail::cast(to, detail::broadcast_to(entry->node, a.shape, here()), here()); };
        table[i] = entry == nullptr ? number(to, static_cast<double>(random.between(0, 6)))
                   : to == e2m1     ? code()
                                    : entry->node;
    }
    const Item* mask = to != u8 && random.one_in(2)
                           ? pool.find(random, [&](const Item& i) { return has_arithmetic(i.type) && fits(i); })
                           : nullptr;
    const Ref signs = mask ? binary(BinaryOp::gt, mask->node, number(mask->type, 2)) : nullptr;
    const Ref codes = detail::cast(e2m1, a.node, here());
    const Ref result = detail::lookup(codes, table, signs, here());
    if (to == u8) return add(pool, {result, u8, a.shape, 255, true});
    if (to == e4m3) return pool.add({result, e4m3, a.shape, 448, false});
    add(pool, {detail::cast(f32, result, here()), f32, a.shape, 6, false});
}

void step_reduce(Random& random, Pool& pool) {
    const Item* found = pool.find(random, [](const Item& i) { return has_arithmetic(i.type) && i.shape.count() > 1; });
    if (found == nullptr) return;
    Item a = *found;
    const int axis = static_cast<int>(random.between(0, a.shape.rank() - 1));
    const auto extent = static_cast<double>(a.shape[axis]);
    Shape shape = a.shape;
    shape[axis] = 1;
    if (is_integer(a.type) && random.one_in(4)) {
        const Ref node = detail::reduce(ReduceOp::bit_or, a.node, axis, here());
        return add(pool, {node, a.type, shape, largest(a.type) + 1, true});
    }
    const double exact = a.type == f32 ? 1 << 24 : 256;
    const bool may_sum = is_integer(a.type) || (a.whole && a.bound * extent < exact);
    if (may_sum && !random.one_in(3)) {
        // Zeros lose their sign first: that of a sum of negative zeros would depend on where the sum starts.
        if (!is_integer(a.type)) a.node = binary(BinaryOp::add, a.node, number(a.type, 0));
        if ((a.type == f32 || bits_of(a.type) >= 32) && random.one_in(2)) {
            const Ref node = detail::scan(a.node, axis, random.one_in(2), here());
            return add(pool, {node, a.type, a.shape, a.bound * extent, true});
        }
        const Ref node = detail::reduce(ReduceOp::sum, a.node, axis, here());
        return add(pool, {node, a.type, shape, a.bound * extent, true});
    }
    const Ref node = detail::reduce(random.pick({ReduceOp::max, ReduceOp::min}), a.node, axis, here());
    add(pool, {node, a.type, shape, a.bound, a.whole});
}

void step_top_k(Random& random, Pool& pool) {
    const Item* found =
        pool.find(random, [](const Item& i) { return i.type == f32 || i.type == i32 || i.type == u32; });
    if (found == nullptr) return;
    const Item a = *found;
    const int axis = static_cast<int>(random.between(0, a.shape.rank() - 1));
    const int count = static_cast<int>(random.between(1, std::min<std::int64_t>(a.shape[axis], 9)));
    const int first = random.one_in(3) ? count - 1 : 0;
    Shape shape = a.shape;
    shape[axis] = static_cast<std::int64_t>(std::bit_ceil(static_cast<unsigned>(count - first)));
    const Ref keys = detail::least(detail::rank_key(a.node, axis, here()), axis, first, count, here());
    pool.add({detail::cast(i32, keys, here()), i32, shape, static_cast<double>(a.shape[axis]), true});
}

void step_broadcast(Random& random, Pool& pool) {
    const Item* found = pool.find(random, [](const Item& i) {
        return std::find(i.shape.begin(), i.shape.end(), 1) != i.shape.end() && i.shape.count() <= largest_tile / 16;
    });
    if (found == nullptr) return;
    Item out = *found;
    for (int axis = 0; axis < out.shape.rank(); ++axis)
        if (out.shape[axis] == 1 && out.shape.count() <= largest_tile / 16)
            out.shape[axis] = random.pick<std::int64_t>({2, 3, 8, 16});
    if (!spreads(out.shape)) return;
    out.node = detail::broadcast_to(out.node, out.shape, here());
    pool.add(out);
}

void step_reshape(Random& random, Pool& pool) {
    const Item* found = pool.find(random, [](const Item&) { return true; });
    if (found == nullptr) return;
    Item out = *found;
    const int axis = static_cast<int>(random.between(0, out.shape.rank() - 1));
    const std::int64_t extent = out.shape[axis];
    Shape shape;
    const auto with = [&](auto&& middle, int skip) {
        for (int i = 0; i < axis; ++i) shape.push_back(out.shape[i]);
        for (const std::int64_t e : middle) shape.push_back(e);
        for (int i = axis + skip; i < out.shape.rank(); ++i) shape.push_back(out.shape[i]);
        out.shape = shape;
    };
    const bool can_merge = axis + 1 < out.shape.rank(), can_grow = out.shape.rank() < 4;
    if (can_merge && random.one_in(2)) {
        out.node = detail::merge(out.node, axis, here());
        with(std::initializer_list<std::int64_t>{extent * out.shape[axis + 1]}, 2);
    } else if (extent == 1 && out.shape.rank() > 1) {
        out.node = detail::squeeze(out.node, axis, here());
        with(std::initializer_list<std::int64_t>{}, 1);
    } else if (can_grow && random.one_in(4)) {
        out.node = detail::unsqueeze(out.node, axis, here());
        with(std::initializer_list<std::int64_t>{1, extent}, 1);
    } else if (can_grow) {
        const auto inner = random.pick<std::int64_t>({2, 3, 4, 8, 16, 32});
        if (extent % inner != 0) return;
        out.node = detail::split(out.node, axis, inner, here());
        with(std::initializer_list<std::int64_t>{extent / inner, inner}, 1);
    } else {
        return;
    }
    pool.add(out);
}

void step_permute(Random& random, Pool& pool) {
    const Item* found = pool.find(random, [](const Item& i) { return i.shape.rank() > 1; });
    if (found == nullptr) return;
    Item out = *found;
    const int rank = out.shape.rank();
    int order[Shape::max_rank] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int i = rank - 1; i > 0; --i) std::swap(order[i], order[random.between(0, i)]);
    for (int i = 0; i < rank; ++i) out.shape[i] = found->shape[order[i]];
    out.node = detail::permute(out.node, order, rank, here());
    pool.add(out);
}

void step_coordinate(Random& random, Pool& pool) {
    const Item* found = pool.find(random, [](const Item&) { return true; });
    if (found == nullptr) return;
    const Shape shape = found->shape;
    const int axis = static_cast<int>(random.between(0, shape.rank() - 1));
    pool.add({detail::coordinate(shape, axis, here()), i64, shape, static_cast<double>(shape[axis]), true});
}

}  // namespace tessera::test

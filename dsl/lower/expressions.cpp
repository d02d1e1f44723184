#include "dsl/lower/expressions.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "dsl/ir/walk.hpp"

namespace tessera::lower {

namespace {

using ir::BinaryOp;

void mix(std::uint64_t& hash, std::uint64_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 29); }

/// A node's fields as numbers; operands by address.
struct Fields {
    std::uint64_t values[16] = {};
    std::size_t count = 0;
    void put(std::uint64_t v) {
        if (count < 16) values[count] = v;
        ++count;
    }
    void operator()(const char*, Ref r) { put(reinterpret_cast<std::uintptr_t>(r)); }
    void operator()(const char*, const std::vector<Ref>& rs) {
        for (Ref r : rs) put(reinterpret_cast<std::uintptr_t>(r));
    }
    template <class T>
    void operator()(const char*, const T& value) {
        if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) put(static_cast<std::uint64_t>(value));
    }
};

Fields fields_of(const ir::Op& op) {
    Fields fields;
    std::visit([&](const auto& kind) { kind.fields(kind, fields); }, op);
    return fields;
}

std::uint64_t hash_of(Element type, const Shape& shape, const ir::Op& op) {
    std::uint64_t hash = op.index();
    mix(hash, static_cast<std::uint64_t>(type));
    for (std::int64_t e : shape) mix(hash, static_cast<std::uint64_t>(e));
    const Fields fields = fields_of(op);
    for (std::size_t i = 0; i < std::min<std::size_t>(fields.count, 16); ++i) mix(hash, fields.values[i]);
    return hash;
}

bool same(const ir::Node& n, Element type, const Shape& shape, const ir::Op& op) {
    if (n.type != type || !(n.shape == shape) || n.op.index() != op.index()) return false;
    const Fields a = fields_of(n.op), b = fields_of(op);
    return a.count <= 16 && a.count == b.count && std::equal(a.values, a.values + a.count, b.values);
}

/// The result in the low bits, where 64 bits with a sign give it.
std::optional<std::int64_t> fold(BinaryOp op, std::int64_t a, std::int64_t b) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    switch (op) {
        case BinaryOp::add: return static_cast<std::int64_t>(x + y);
        case BinaryOp::sub: return static_cast<std::int64_t>(x - y);
        case BinaryOp::mul: return static_cast<std::int64_t>(x * y);
        case BinaryOp::div: return b == 0 || b == -1 ? std::nullopt : std::optional(a / b);
        case BinaryOp::mod: return b == 0 || b == -1 ? std::nullopt : std::optional(a % b);
        case BinaryOp::bit_and: return a & b;
        case BinaryOp::bit_xor: return a ^ b;
        case BinaryOp::shl: return y < 64 ? std::optional(static_cast<std::int64_t>(x << y)) : std::nullopt;
        case BinaryOp::shr: return y < 64 ? std::optional(a >> y) : std::nullopt;
        case BinaryOp::lt: return a < b;
        case BinaryOp::eq: return a == b;
        default: return std::nullopt;
    }
}

}  // namespace

bool constant_value(Ref node, std::int64_t& value) {
    const auto* c = node->as<ir::Constant>();
    if (!c || !(is_integer(node->type) || node->type == boolean)) return false;
    const int width = bits_of(node->type);
    value = static_cast<std::int64_t>(c->bits);
    if (width < 64 && is_signed_integer(node->type))
        value = static_cast<std::int64_t>(c->bits << (64 - width)) >> (64 - width);
    return true;
}

bool is_multiple(Ref number, std::int64_t n) {
    std::int64_t value = 0;
    if (n == 1) return true;
    if (constant_value(number, value)) return value % n == 0;
    const auto* b = number->as<ir::Binary>();
    if (!b) return false;
    if (b->op == ir::BinaryOp::mul) return is_multiple(b->a, n) || is_multiple(b->b, n);
    if (b->op == ir::BinaryOp::add || b->op == ir::BinaryOp::sub) return is_multiple(b->a, n) && is_multiple(b->b, n);
    return false;
}

Ref Expressions::make(Element type, Shape shape, ir::Op op) {
    const std::uint64_t hash = hash_of(type, shape, op);
    const auto [begin, end] = known_.equal_range(hash);
    for (auto it = begin; it != end; ++it)
        if (same(*it->second, type, shape, op)) return it->second;
    const Ref node = arena_.make(type, shape, {}, std::move(op));
    known_.emplace(hash, node);
    return node;
}

Ref Expressions::number(Element type, std::int64_t value) {
    const int width = bits_of(type);
    const std::uint64_t mask = width == 64 ? ~0ull : (1ull << width) - 1;
    return make(type, {}, ir::Constant{static_cast<std::uint64_t>(value) & mask});
}

Ref Expressions::widen(Ref a) {
    std::int64_t value = 0;
    if (a->type == Element::i64) return a;
    if (constant_value(a, value)) return i64(value);
    return make(Element::i64, {}, ir::Cast{a});
}

Ref Expressions::narrow(Ref a) {
    std::int64_t value = 0;
    if (a->type == Element::i32) return a;
    if (constant_value(a, value)) return i32(value);
    return make(Element::i32, {}, ir::Cast{a});
}

Ref Expressions::binary(BinaryOp op, Ref a, Ref b) {
    if (a->type != b->type && (a->type == Element::i64 || b->type == Element::i64)) {
        a = widen(a);
        b = widen(b);
    }
    const Element result = op >= BinaryOp::eq ? boolean : a->type;
    std::int64_t x = 0, y = 0;
    const bool ca = constant_value(a, x), cb = constant_value(b, y);
    const bool past_sign = a->type == u64 && (x < 0 || y < 0);
    if (ca && cb && !past_sign) {
        if (const auto folded = fold(op, x, y)) return number(result, *folded);
    }
    if (ca && !cb && (op == BinaryOp::add || op == BinaryOp::mul)) return binary(op, b, a);  // constants stand right
    if (cb) {
        if (y == 0 && (op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::bit_xor || op == BinaryOp::shl ||
                       op == BinaryOp::shr))
            return a;
        if (y == 0 && (op == BinaryOp::mul || (op == BinaryOp::bit_and && a->type != boolean))) return b;
        if (y == 1 && (op == BinaryOp::mul || op == BinaryOp::div)) return a;
        if (y == 1 && op == BinaryOp::mod) return number(result, 0);
        if (a->type == boolean && op == BinaryOp::bit_and) return y ? a : b;
        // (z + c) + d and (z · c) · d meet in one constant
        const auto* inner = a->as<ir::Binary>();
        std::int64_t z = 0;
        if (inner && inner->op == op && (op == BinaryOp::add || op == BinaryOp::mul) && constant_value(inner->b, z))
            return binary(op, inner->a, number(result, *fold(op, z, y)));
    }
    if (ca && a->type == boolean && op == BinaryOp::bit_and) return x ? b : a;
    return make(result, {}, ir::Binary{op, a, b});
}

template <class Value, class Find>
Value Facts::remembered(std::unordered_map<Ref, Value>& known, Ref node, Find&& find) const {
    if (const auto it = known.find(node); it != known.end()) return it->second;
    const Value value = find();
    known.emplace(node, value);
    return value;
}

std::int64_t Facts::divisor(Ref node) const {
    return remembered(divisors_, node, [&] { return find_divisor(node); });
}
std::int64_t Facts::upper_bound(Ref node) const {
    return remembered(bounds_, node, [&] { return find_upper_bound(node); });
}
bool Facts::non_negative(Ref node) const {
    return remembered(signs_, node, [&] { return find_non_negative(node); });
}

std::int64_t Facts::find_divisor(Ref node) const {
    constexpr std::int64_t most = std::int64_t{1} << 30;
    std::int64_t value = 0;
    if (constant_value(node, value)) {
        const auto bits = static_cast<std::uint64_t>(value);
        return value == 0 ? most : static_cast<std::int64_t>(std::min<std::uint64_t>(most, bits & (0 - bits)));
    }
    if (const auto* p = node->as<ir::Parameter>()) {
        const std::int64_t m = program_.scalars[static_cast<std::size_t>(p->index)].multiple_of;
        return std::min(most, m & -m);
    }
    if (const auto* b = node->as<ir::Binary>()) {
        if (b->op == BinaryOp::mul) return std::min(most, divisor(b->a) * divisor(b->b));
        if (b->op == BinaryOp::add || b->op == BinaryOp::sub) return std::min(divisor(b->a), divisor(b->b));
    }
    return 1;
}

/// The largest factor of n that is known to divide the number.
std::int64_t Facts::common_factor(Ref node, std::int64_t n) const {
    return remembered(factors_[n], node, [&] { return find_common_factor(node, n); });
}

std::int64_t Facts::find_common_factor(Ref node, std::int64_t n) const {
    std::int64_t value = 0;
    if (constant_value(node, value)) return std::gcd(value % n, n);
    if (const auto* p = node->as<ir::Parameter>())
        return std::gcd(program_.scalars[static_cast<std::size_t>(p->index)].multiple_of, n);
    const auto* b = node->as<ir::Binary>();
    if (!b) return 1;
    const auto of = [&](Ref operand) { return common_factor(operand, n); };
    if (b->op == BinaryOp::mul) return std::gcd(of(b->a) * of(b->b), n);
    if (b->op == BinaryOp::add || b->op == BinaryOp::sub) return std::gcd(of(b->a), of(b->b));
    return 1;
}

Ref Facts::count_of(Ref index) const {
    if (const auto* i = index->as<ir::BlockIndex>()) return program_.grid[static_cast<std::size_t>(i->axis)];
    const auto* i = index->as<ir::LoopIndex>();
    Ref count = nullptr;
    if (i)
        ir::for_each_statement(program_.body, [&](const ir::Statement& s) {
            if (const auto* f = s.as<ir::For>(); f && f->loop == i->loop) count = f->end;
        });
    return count;
}

std::int64_t Facts::find_upper_bound(Ref node) const {
    std::int64_t value = 0;
    if (constant_value(node, value)) return value >= 0 ? value : -1;
    if (const Ref count = count_of(node)) {
        const std::int64_t most = upper_bound(count);
        return most > 0 ? most - 1 : most;
    }
    if (const auto* c = node->as<ir::Cast>(); c && is_integer(c->value->type) && is_integer(node->type)) {
        const std::int64_t bound = upper_bound(c->value);
        const bool wider = is_signed_integer(node->type) && bits_of(node->type) > bits_of(c->value->type);
        const bool keeps = wider || (non_negative(c->value) && bound < std::int64_t{1} << (bits_of(node->type) - 1));
        return keeps ? bound : -1;
    }
    if (const auto* b = node->as<ir::Binary>()) {
        const std::int64_t x = upper_bound(b->a), y = upper_bound(b->b);
        constexpr std::int64_t small = std::int64_t{1} << 31;
        const bool both = x >= 0 && y >= 0 && x < small && y < small;
        if (both && b->op == BinaryOp::add) return x + y;
        if (both && b->op == BinaryOp::mul) return x * y;
        if (both && b->op == BinaryOp::max) return std::max(x, y);
        if (b->op == BinaryOp::min && (x >= 0 || y >= 0)) return x < 0 ? y : y < 0 ? x : std::min(x, y);
        std::int64_t divisor_value = 0;
        if (x >= 0 && b->op == BinaryOp::div && constant_value(b->b, divisor_value) && divisor_value > 0)
            return x / divisor_value;
        if (b->op == BinaryOp::mod && constant_value(b->b, divisor_value) && divisor_value > 0)
            return divisor_value - 1;
    }
    return -1;
}

namespace {

/// Whether `count` is ⌈limit / n⌉ as ceil_div writes it: (limit + (n − 1)) / n.
bool is_tiles_of(Ref count, Ref limit, std::int64_t n) {
    std::int64_t x = 0, y = 0;
    const auto* d = count->as<ir::Binary>();
    if (!d || d->op != BinaryOp::div || !constant_value(d->b, x) || x != n) return false;
    const auto* s = d->a->as<ir::Binary>();
    return s && s->op == BinaryOp::add && s->a == limit && constant_value(s->b, y) && y == n - 1;
}

}  // namespace

bool Facts::find_non_negative(Ref node) const {
    std::int64_t value = 0;
    if (constant_value(node, value)) return value >= 0;
    if (node->as<ir::BlockIndex>() || node->as<ir::LoopIndex>()) return true;
    if (const auto* p = node->as<ir::Parameter>()) {
        for (const ir::TensorParam& tensor : program_.tensors)
            for (const ir::Axis& axis : tensor.axes)
                if (const auto* q = axis.extent->as<ir::Parameter>(); q && q->index == p->index) return true;
        return false;
    }
    if (const auto* s = node->as<ir::Select>()) return non_negative(s->a) && non_negative(s->b);
    if (node->type == u32 || node->type == u64) return true;
    if (const auto* c = node->as<ir::Cast>(); c && is_integer(c->value->type))
        return bits_of(node->type) > bits_of(c->value->type) && non_negative(c->value);
    const auto* b = node->as<ir::Binary>();
    if (!b) return false;
    if (b->op == BinaryOp::max) return non_negative(b->a) || non_negative(b->b);
    if (b->op == BinaryOp::mod || b->op == BinaryOp::shr) return non_negative(b->a);
    if (!non_negative(b->a) || !non_negative(b->b)) return false;
    return b->op == BinaryOp::add || b->op == BinaryOp::mul || b->op == BinaryOp::div || b->op == BinaryOp::min ||
           b->op == BinaryOp::bit_and;
}

bool Facts::inside(Ref offset, std::int64_t extent, Ref limit) const {
    std::int64_t end = 0;
    if (constant_value(limit, end)) {
        const std::int64_t last = upper_bound(offset);
        return last >= 0 && last + extent <= end;
    }
    // index · tile where the grid, or loop, has ⌈limit / tile⌉ and the limit is a multiple of the tile
    if (extent == 1 && count_of(offset)) return count_of(offset) == limit;
    const auto* m = offset->as<ir::Binary>();
    std::int64_t tile = 0;
    if (!m || m->op != BinaryOp::mul || !constant_value(m->b, tile) || tile != extent) return false;
    const Ref count = count_of(m->a);
    if (!count) return false;
    if (tile == 1) return count == limit;
    return divisor(limit) % tile == 0 && is_tiles_of(count, limit, tile);
}

}  // namespace tessera::lower

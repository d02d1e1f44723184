#include "dsl/ir/evaluate.hpp"

#include <bit>
#include <cmath>
#include <string>
#include <type_traits>

#include "dsl/base/convert.hpp"
#include "dsl/base/error.hpp"

namespace tessera::ir {

namespace {

[[noreturn]] void refuse(const Node& n, const std::string& why) {
    throw InternalError("cannot evaluate node " + std::to_string(n.id) + " of type " + name_of(n.type) +
                        " before a launch: " + why);
}

std::uint64_t truncate(std::uint64_t bits, Element type) {
    if (type == boolean) return bits & 1;
    const int width = bits_of(type);
    return width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
}

/// Sign- or zero-extends by the type; unsigned 64-bit numbers keep their bits.
std::int64_t extend(std::uint64_t bits, Element type) {
    const std::uint64_t low = truncate(bits, type);
    if (!is_signed_integer(type)) return static_cast<std::int64_t>(low);
    const int unused = 64 - bits_of(type);
    return static_cast<std::int64_t>(low << unused) >> unused;
}

float to_float(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
std::uint64_t from_float(float x) { return std::isnan(x) ? nan_f32 : std::bit_cast<std::uint32_t>(x); }

/// NaN loses against a number, and −0 lies below +0.
float extreme(float a, float b, bool largest) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) == largest ? b : a;
    return (a < b) == largest ? b : a;
}

template <class T>
bool compare(const Node& n, BinaryOp op, T a, T b) {
    switch (op) {
        case BinaryOp::eq: return a == b;
        case BinaryOp::ne: return a != b;
        case BinaryOp::lt: return a < b;
        case BinaryOp::le: return a <= b;
        case BinaryOp::gt: return a > b;
        case BinaryOp::ge: return a >= b;
        default: refuse(n, "its operation does not fit its operands");
    }
}

std::uint64_t float_binary(const Node& n, BinaryOp op, float a, float b) {
    switch (op) {
        case BinaryOp::add: return from_float(a + b);
        case BinaryOp::sub: return from_float(a - b);
        case BinaryOp::mul: return from_float(a * b);
        case BinaryOp::div: return from_float(a / b);
        case BinaryOp::min: return from_float(extreme(a, b, false));
        case BinaryOp::max: return from_float(extreme(a, b, true));
        default: return compare(n, op, a, b);
    }
}

/// Quotient or remainder; the most negative number over −1 wraps.
template <class T>
T divide(const Node& n, bool quotient, T a, T b) {
    if (b == 0)
        throw UsageError(
            n.place, "integer division by zero, by a number that is known only at launch; make that number positive");
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return quotient ? static_cast<T>(0 - static_cast<std::uint64_t>(a)) : 0;
    return quotient ? a / b : a % b;
}

template <class T>
std::uint64_t integer_binary(const Node& n, BinaryOp op, T a, T b, int width) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    const int count = static_cast<int>(y % static_cast<unsigned>(width));
    switch (op) {
        case BinaryOp::add: return x + y;
        case BinaryOp::sub: return x - y;
        case BinaryOp::mul: return x * y;
        case BinaryOp::div: return static_cast<std::uint64_t>(divide(n, true, a, b));
        case BinaryOp::mod: return static_cast<std::uint64_t>(divide(n, false, a, b));
        case BinaryOp::min: return a < b ? x : y;
        case BinaryOp::max: return a < b ? y : x;
        case BinaryOp::bit_and: return x & y;
        case BinaryOp::bit_or: return x | y;
        case BinaryOp::bit_xor: return x ^ y;
        case BinaryOp::shl: return x << count;
        case BinaryOp::shr: return static_cast<std::uint64_t>(a >> count);
        default: return compare(n, op, a, b);
    }
}

class Evaluation {
public:
    Evaluation(std::span<const std::uint64_t> scalars, std::span<const Counter> counters)
        : scalars_(scalars), counters_(counters) {}

    std::uint64_t operator()(Ref ref) const {
        require_internal(ref != nullptr, "evaluate: an expression is missing");
        const Node& n = *ref;
        if (!n.scalar()) refuse(n, "it is a tile");
        if (n.type != f32 && n.type != boolean && !is_integer(n.type))
            refuse(n, "this element type is not supported here");
        return truncate(std::visit([&](const auto& op) { return of(n, op); }, n.op), n.type);
    }

private:
    std::uint64_t of(const Node&, const Constant& op) const { return op.bits; }

    std::uint64_t of(const Node& n, const Parameter& op) const {
        if (op.index < 0 || static_cast<std::size_t>(op.index) >= scalars_.size())
            refuse(n, "scalar " + std::to_string(op.index) + " is not among the " + std::to_string(scalars_.size()) +
                          " given");
        return scalars_[op.index];
    }

    std::uint64_t of(const Node& n, const LoopIndex& op) const {
        for (const Counter& c : counters_)
            if (c.loop == op.loop) return static_cast<std::uint64_t>(c.value);
        refuse(n, "it is the counter of loop " + std::to_string(op.loop) + ", for which no value is given");
    }

    std::uint64_t of(const Node& n, const Unary& op) const {
        const std::uint64_t x = (*this)(op.value);
        if (n.type == f32) {
            if (op.op == UnaryOp::neg) return x ^ 0x80000000u;
            if (op.op == UnaryOp::abs) return x & 0x7FFFFFFFu;
            if (op.op == UnaryOp::rsqrt)
                return from_float(static_cast<float>(1.0 / std::sqrt(static_cast<double>(to_float(x)))));
        } else {
            if (op.op == UnaryOp::bit_not) return ~x;
            if (op.op == UnaryOp::neg && n.type != boolean) return 0 - x;
            if (op.op == UnaryOp::abs && is_integer(n.type))
                return extend(x, n.type) < 0 && is_signed_integer(n.type) ? 0 - x : x;
        }
        refuse(n, "its operation does not fit its operand");
    }

    std::uint64_t of(const Node& n, const Binary& op) const {
        const std::uint64_t a = (*this)(op.a), b = (*this)(op.b);
        const Element type = op.a->type;
        if (type == f32) return float_binary(n, op.op, to_float(a), to_float(b));
        if (is_signed_integer(type))
            return integer_binary(n, op.op, extend(a, type), extend(b, op.b->type), bits_of(type));
        return integer_binary(n, op.op, a, b, bits_of(type));
    }

    std::uint64_t of(const Node&, const Select& op) const {
        return (*this)(op.condition) != 0 ? (*this)(op.a) : (*this)(op.b);
    }

    std::uint64_t of(const Node& n, const Cast& op) const {
        return convert_bits(op.value->type, n.type, (*this)(op.value));
    }

    std::uint64_t of(const Node& n, const Bitcast& op) const {
        if (bits_of(op.value->type) != bits_of(n.type)) refuse(n, "the widths of a bitcast differ");
        return (*this)(op.value);
    }

    template <class Other>
    std::uint64_t of(const Node& n, const Other&) const {
        refuse(n, "it depends on more than constants, scalars and the given counters");
    }

    std::span<const std::uint64_t> scalars_;
    std::span<const Counter> counters_;
};

}  // namespace

std::uint64_t evaluate(Ref expression, std::span<const std::uint64_t> scalars, std::span<const Counter> counters) {
    return Evaluation(scalars, counters)(expression);
}

std::int64_t evaluate_integer(Ref expression, std::span<const std::uint64_t> scalars,
                              std::span<const Counter> counters) {
    const std::uint64_t bits = evaluate(expression, scalars, counters);
    if (expression->type == f32) refuse(*expression, "an integer is needed here");
    return extend(bits, expression->type);
}

}  // namespace tessera::ir

#pragma once

#include <concepts>
#include <cstdint>

#include "dsl/front/detail.hpp"

namespace tessera {

template <int N>
struct Axis {};
/// Names an axis: reduce_max(v, axis<1>).
template <int N>
inline constexpr Axis<N> axis{};

template <Element T, int R>
class Value;

namespace detail {

template <class N>
concept Number = std::integral<N> || std::floating_point<N>;

template <Element T>
constexpr bool has_arithmetic = T == f64 || T == f32 || T == f16 || T == bf16 || is_integer(T);

template <Element T, Number N>
Ref number(N n, const Place& place) {
    static_assert(is_float(T) || std::integral<N>,
                  "tessera: a floating-point number meets an integer value; write an integer");
    if constexpr (std::unsigned_integral<N>)
        return constant(T, static_cast<std::uint64_t>(n), place);
    else if constexpr (std::integral<N>)
        return constant(T, static_cast<std::int64_t>(n), place);
    else
        return constant(T, static_cast<double>(n), place);
}

/// Extents of a tile as the writer lists them.
template <int R>
Shape shape_of(const std::int64_t (&extents)[R]) {
    static_assert(R <= Shape::max_rank, "tessera: a tile has at most 8 axes");
    Shape shape;
    for (std::int64_t e : extents) shape.push_back(e);
    return shape;
}

/// Left operand of an operator on Value<T, R>: such a value, a rank-0 one, or a number. Captures the writer's place.
template <Element T, int R>
struct Lhs {
    Ref node;
    Place place;
    Lhs(const Value<T, R>& v, std::source_location at = std::source_location::current())
        : node(v.node(at)), place(at) {}
    Lhs(const Value<T, 0>& v, std::source_location at = std::source_location::current())
        requires(R != 0)
        : node(v.node(at)), place(at) {}
    template <Number N>
    Lhs(N n, std::source_location at = std::source_location::current()) : node(number<T>(n, Place(at))), place(at) {}
};

/// Right operand; what cannot meet explains itself.
template <Element T, int R>
struct Rhs {
    Ref node;
    Place place;
    Rhs(const Value<T, R>& v, std::source_location at = std::source_location::current())
        : node(v.node(at)), place(at) {}
    Rhs(const Value<T, 0>& v, std::source_location at = std::source_location::current())
        requires(R != 0)
        : node(v.node(at)), place(at) {}
    template <Number N>
    Rhs(N n, std::source_location at = std::source_location::current()) : node(number<T>(n, Place(at))), place(at) {}
    template <Element U, int S>
        requires(U != T || (S != R && R != 0 && S != 0))
    Rhs(const Value<U, S>& v, std::source_location = std::source_location::current()) : node(v.node()) {
        static_assert(U == T, "tessera: the operands have different element types; cast one of them: cast<f32>(v)");
        static_assert(
            U != T || S == R,
            "tessera: the operands have different ranks; use split, squeeze or unsqueeze, or a value of rank 0");
    }
};

}  // namespace detail

/// A tile of registers (rank ≥ 1) or a number uniform over the block (rank 0), with element and rank in its type.
/// Extents are fixed while recording. Copying a Value copies a name, not data. It means what it meant on the line that
/// made it.
template <Element T, int R>
class Value {
public:
    static constexpr Element element = T;
    static constexpr int rank = R;
    using Left = detail::Lhs<T, R>;
    using Right = detail::Rhs<T, R>;
    using Mask = Value<Element::boolean, R>;

    explicit Value(detail::Ref node) : node_(node), recording_(detail::recording_now()) {}
    /// A rank-0 value from a number.
    template <detail::Number N>
        requires(R == 0)
    Value(N n, std::source_location at = std::source_location::current()) : Value(detail::number<T>(n, Place(at))) {}

    detail::Ref node() const { return node_; }
    /// The node, for use at that place. Errors: UsageError if the value belongs to another recording.
    detail::Ref node(const Place& at) const {
        detail::require_recording(recording_, at);
        return node_;
    }
    std::int64_t extent(int a, std::source_location at = std::source_location::current()) const {
        return detail::extent_of(node(at), a, at);
    }

    /// Divides axis N into (extent / inner, inner); `inner` must divide the extent.
    template <int N>
    Value<T, R + 1> split(Axis<N>, std::int64_t inner,
                          std::source_location at = std::source_location::current()) const {
        static_assert(N >= 0 && N < R, "tessera: split names an axis that the value does not have");
        static_assert(R < Shape::max_rank, "tessera: a tile has at most 8 axes");
        return Value<T, R + 1>(detail::split(node(at), N, inner, at));
    }
    /// Joins axes N and N + 1, the inverse of split.
    template <int N>
    Value<T, R - 1> merge(Axis<N>, std::source_location at = std::source_location::current()) const {
        static_assert(N >= 0 && N + 1 < R, "tessera: merge needs axis N and axis N + 1");
        return Value<T, R - 1>(detail::merge(node(at), N, at));
    }
    /// Drops axis N, whose extent must be 1.
    template <int N>
    Value<T, R - 1> squeeze(Axis<N>, std::source_location at = std::source_location::current()) const {
        static_assert(N >= 0 && N < R, "tessera: squeeze names an axis that the value does not have");
        return Value<T, R - 1>(detail::squeeze(node(at), N, at));
    }
    /// Puts a new axis of extent 1 before axis N.
    template <int N>
    Value<T, R + 1> unsqueeze(Axis<N>, std::source_location at = std::source_location::current()) const {
        static_assert(N >= 0 && N <= R, "tessera: unsqueeze names a position past the end");
        static_assert(R < Shape::max_rank, "tessera: a tile has at most 8 axes");
        return Value<T, R + 1>(detail::unsqueeze(node(at), N, at));
    }
    /// Result axis i is axis order[i]; permute<1, 0>() transposes.
    template <int... Order>
    Value permute(std::source_location at = std::source_location::current()) const {
        static_assert(sizeof...(Order) == R, "tessera: permute names every axis once");
        const int order[] = {Order...};
        return Value(detail::permute(node(at), order, R, at));
    }

    friend Value operator+(Left a, Right b) { return arithmetic(ir::BinaryOp::add, a, b); }
    friend Value operator-(Left a, Right b) { return arithmetic(ir::BinaryOp::sub, a, b); }
    friend Value operator*(Left a, Right b) { return arithmetic(ir::BinaryOp::mul, a, b); }
    friend Value operator/(Left a, Right b) { return arithmetic(ir::BinaryOp::div, a, b); }
    friend Value operator%(Left a, Right b) { return integral(ir::BinaryOp::mod, a, b); }
    friend Value operator<<(Left a, Right b) { return integral(ir::BinaryOp::shl, a, b); }
    friend Value operator>>(Left a, Right b) { return integral(ir::BinaryOp::shr, a, b); }
    friend Value operator&(Left a, Right b) { return bitwise(ir::BinaryOp::bit_and, a, b); }
    friend Value operator|(Left a, Right b) { return bitwise(ir::BinaryOp::bit_or, a, b); }
    friend Value operator^(Left a, Right b) { return bitwise(ir::BinaryOp::bit_xor, a, b); }
    friend Mask operator==(Left a, Right b) { return compare(ir::BinaryOp::eq, a, b); }
    friend Mask operator!=(Left a, Right b) { return compare(ir::BinaryOp::ne, a, b); }
    friend Mask operator<(Left a, Right b) { return compare(ir::BinaryOp::lt, a, b); }
    friend Mask operator<=(Left a, Right b) { return compare(ir::BinaryOp::le, a, b); }
    friend Mask operator>(Left a, Right b) { return compare(ir::BinaryOp::gt, a, b); }
    friend Mask operator>=(Left a, Right b) { return compare(ir::BinaryOp::ge, a, b); }
    /// Of two values, the larger; NaN is dropped.
    friend Value max(Left a, Right b) { return arithmetic(ir::BinaryOp::max, a, b); }
    /// Of two values, the smaller; NaN is dropped.
    friend Value min(Left a, Right b) { return arithmetic(ir::BinaryOp::min, a, b); }

    friend Value operator-(Left a) {
        static_assert(detail::has_arithmetic<T>, "tessera: this element type has no arithmetic; cast<f32>(v) first");
        return Value(detail::unary(ir::UnaryOp::neg, a.node, a.place));
    }
    friend Value operator~(Left a) {
        static_assert(is_integer(T) || T == Element::boolean, "tessera: ~ is for masks and integers");
        return Value(detail::unary(ir::UnaryOp::bit_not, a.node, a.place));
    }

    template <class Never = void>
    explicit operator bool() const {
        static_assert(
            detail::never_type<Never>,
            "tessera: a value is known only when the kernel runs and cannot steer C++; use select(mask, a, b)");
        return false;
    }

private:
    static Value arithmetic(ir::BinaryOp op, const Left& a, const Right& b) {
        static_assert(detail::has_arithmetic<T>, "tessera: this element type has no arithmetic; cast<f32>(v) first");
        return Value(detail::binary(op, a.node, b.node, a.place));
    }
    static Value integral(ir::BinaryOp op, const Left& a, const Right& b) {
        static_assert(is_integer(T), "tessera: %, << and >> are for integers");
        return Value(detail::binary(op, a.node, b.node, a.place));
    }
    static Value bitwise(ir::BinaryOp op, const Left& a, const Right& b) {
        static_assert(is_integer(T) || T == Element::boolean,
                      "tessera: &, | and ^ are for masks and integers; see bitcast<u32>(v)");
        return Value(detail::binary(op, a.node, b.node, a.place));
    }
    static Mask compare(ir::BinaryOp op, const Left& a, const Right& b) {
        static_assert(detail::has_arithmetic<T> || T == Element::boolean,
                      "tessera: this element type has no order; cast<f32>(v) first");
        return Mask(detail::binary(op, a.node, b.node, a.place));
    }

    detail::Ref node_;
    std::uint64_t recording_;
};

// Preferred over the built-in operators, so that the mistake explains itself.
#define TESSERA_NO_LOGICAL(op, cure)                                                                            \
    template <Element T, int R, class U>                                                                        \
    void operator op(const Value<T, R>&, const U&) {                                                            \
        static_assert(detail::never<T>, "tessera: " #op " would need the value now; masks combine with " cure); \
    }                                                                                                           \
    template <detail::Number U, Element T, int R>                                                               \
    void operator op(const U&, const Value<T, R>&) {                                                            \
        static_assert(detail::never<T>, "tessera: " #op " would need the value now; masks combine with " cure); \
    }
TESSERA_NO_LOGICAL(&&, "&")
TESSERA_NO_LOGICAL(||, "|")
#undef TESSERA_NO_LOGICAL
template <Element T, int R>
void operator!(const Value<T, R>&) {
    static_assert(detail::never<T>, "tessera: ! would need the value now; masks are inverted with ~");
}

/// A whole number uniform over the grid or block: a dimension, a block index, a loop counter.
using Index = Value<Element::i64, 0>;
using Dim = Index;

}  // namespace tessera

#pragma once

#include "dsl/front/value.hpp"

// Named operations on values. Rank-0 operands meet any rank; extents of 1 spread.

namespace tessera {

/// |v|; clears the sign bit, of NaN too.
template <Element T, int R>
Value<T, R> abs(const Value<T, R>& v, std::source_location at = std::source_location::current()) {
    static_assert(detail::has_arithmetic<T>, "tessera: this element type has no arithmetic; cast<f32>(v) first");
    return Value<T, R>(detail::unary(ir::UnaryOp::abs, v.node(at), at));
}

/// 1/√v for f32: the device's own rsqrtf, at most 2 ulp off; correctly rounded on the host.
template <int R>
Value<f32, R> rsqrt(const Value<f32, R>& v, std::source_location at = std::source_location::current()) {
    return Value<f32, R>(detail::unary(ir::UnaryOp::rsqrt, v.node(at), at));
}

/// e^v for f32: the device's own expf, at most 1 ulp off; correctly rounded on the host.
template <int R>
Value<f32, R> exp(const Value<f32, R>& v, std::source_location at = std::source_location::current()) {
    return Value<f32, R>(detail::unary(ir::UnaryOp::exp, v.node(at), at));
}

/// √v for f32, correctly rounded; NaN below 0.
template <int R>
Value<f32, R> sqrt(const Value<f32, R>& v, std::source_location at = std::source_location::current()) {
    return Value<f32, R>(detail::unary(ir::UnaryOp::sqrt, v.node(at), at));
}

/// log(1 + v) for f32: the device's own log1pf, at most 1 ulp off; correctly rounded on the host.
template <int R>
Value<f32, R> log1p(const Value<f32, R>& v, std::source_location at = std::source_location::current()) {
    return Value<f32, R>(detail::unary(ir::UnaryOp::log1p, v.node(at), at));
}

/// a · b + c, rounded once.
template <int R>
Value<f32, R> fma(const Value<f32, R>& a, std::type_identity_t<detail::Rhs<f32, R>> b,
                  std::type_identity_t<detail::Rhs<f32, R>> c,
                  std::source_location at = std::source_location::current()) {
    return Value<f32, R>(detail::fma(a.node(at), b.node, c.node, at));
}

/// a / b with the bits of `/` but without its branch, for b and |a / b| in [2⁻¹⁰⁰, 2¹⁰⁰] and finite |a| ≥ 2⁻¹⁰⁰, for
/// a = ±0, and for b = 1 and 2; NaN for infinite a. Outside of that undefined, and an error on the checking host.
template <int R>
Value<f32, R> divide_bounded(const Value<f32, R>& a, std::type_identity_t<detail::Rhs<f32, R>> b,
                             std::source_location at = std::source_location::current()) {
    return Value<f32, R>(detail::binary(ir::BinaryOp::div_bounded, a.node(at), b.node, at));
}
template <int R>
Value<f32, R> divide_bounded(float a, const Value<f32, R>& b,
                             std::source_location at = std::source_location::current()) {
    return Value<f32, R>(detail::binary(ir::BinaryOp::div_bounded, detail::number<f32>(a, at), b.node(at), at));
}

/// max(min(v, hi), lo): NaN becomes hi.
template <Element T, int R>
Value<T, R> clamp(const Value<T, R>& v, std::type_identity_t<detail::Lhs<T, R>> lo,
                  std::type_identity_t<detail::Lhs<T, R>> hi,
                  std::source_location at = std::source_location::current()) {
    return Value<T, R>(
        detail::binary(ir::BinaryOp::max, detail::binary(ir::BinaryOp::min, v.node(at), hi.node, at), lo.node, at));
}

namespace detail {
template <Element T, int R>
Value<T, R> keeping_nan(ir::BinaryOp op, Ref a, Ref b, std::source_location at) {
    static_assert(T == f32 || T == bf16 || T == f16, "tessera: NaN is kept by f32, bf16 and f16; cast<f32>(v) first");
    return Value<T, R>(binary(op, a, b, at));
}
}  // namespace detail

/// Of two values, the larger; NaN if one is NaN.
template <Element T, int R>
Value<T, R> max_nan(const Value<T, R>& a, std::type_identity_t<detail::Rhs<T, R>> b,
                    std::source_location at = std::source_location::current()) {
    return detail::keeping_nan<T, R>(ir::BinaryOp::max_nan, a.node(at), b.node, at);
}
/// Of two values, the smaller; NaN if one is NaN.
template <Element T, int R>
Value<T, R> min_nan(const Value<T, R>& a, std::type_identity_t<detail::Rhs<T, R>> b,
                    std::source_location at = std::source_location::current()) {
    return detail::keeping_nan<T, R>(ir::BinaryOp::min_nan, a.node(at), b.node, at);
}

/// condition ? a : b, element by element.
template <Element T, int R, int C>
Value<T, R> select(const Value<boolean, C>& condition, const Value<T, R>& a, std::type_identity_t<detail::Rhs<T, R>> b,
                   std::source_location at = std::source_location::current()) {
    static_assert(C == R || C == 0, "tessera: select's mask and values have different ranks");
    return Value<T, R>(detail::select(condition.node(at), a.node(at), b.node, at));
}

/// condition ? a : b of two numbers, as a tile of the mask's extents.
template <Element T, int C>
    requires(C > 0)
Value<T, C> select(const Value<boolean, C>& condition, const Value<T, 0>& a, const Value<T, 0>& b,
                   std::source_location at = std::source_location::current()) {
    return Value<T, C>(detail::select(condition.node(at), a.node(at), b.node(at), at));
}

namespace detail {
template <Element To, Element T, int R, class Entry>
Value<To, R> mapped(const Value<T, R>& codes, Entry& entry, Ref signs, std::source_location at) {
    static_assert(T == e2m1, "tessera: only codes of e2m1 are few enough for a table");
    static_assert(To == e2m1 || To == e4m3 || To == u8, "tessera: codes are mapped to e2m1, e4m3 or u8");
    constexpr float magnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    Ref table[8];
    for (int i = 0; i < 8; ++i) table[i] = Rhs<To, R>(entry(magnitudes[i]), at).node;
    return Value<To, R>(lookup(codes.node(at), table, signs, at));
}
}  // namespace detail

/// entry(m) of each code's magnitude m = 0, 0.5, 1, 1.5, 2, 3, 4, 6, negated where the code is negative; u8 takes no
/// sign. `entry` is called 8 times, in this order, and gives numbers, or tiles that have the codes' extents or 1: codes
/// that share a table cost an eighth of what computing with their values does.
template <Element To, Element T, int R, class Entry>
Value<To, R> map_magnitudes(const Value<T, R>& codes, Entry&& entry,
                            std::source_location at = std::source_location::current()) {
    return detail::mapped<To>(codes, entry, nullptr, at);
}
/// The same with signs taken only where `signs` holds.
template <Element To, Element T, int R, class Entry, Element S, int Q>
Value<To, R> map_magnitudes(const Value<T, R>& codes, Entry&& entry, const Value<S, Q>& signs,
                            std::source_location at = std::source_location::current()) {
    static_assert(To != u8, "tessera: u8 takes no sign");
    static_assert(S == boolean && Q == R, "tessera: signs are a mask of the codes' rank");
    return detail::mapped<To>(codes, entry, signs.node(at), at);
}

/// Converts by value: to nearest even; e4m3 saturates at ±448; tf32 rounds ties away from 0; float to integer
/// truncates.
template <Element To, Element T, int R>
Value<To, R> cast(const Value<T, R>& v, std::source_location at = std::source_location::current()) {
    if constexpr (To == T)
        return v;
    else
        return Value<To, R>(detail::cast(To, v.node(at), at));
}

/// The codes of `cast` for |v| < 7 and for NaN: what has been divided by a scale of its own block. In f16 v may have
/// eight significant bits, as many as in bf16. Cheaper before SM100. Outside: undefined, an error on the checking host.
template <Element To, Element T, int R>
Value<To, R> cast_bounded(const Value<T, R>& v, std::source_location at = std::source_location::current()) {
    static_assert(To == e2m1, "tessera: only a cast to e2m1 has bounds to gain from; use cast");
    static_assert(T == f32 || T == bf16 || T == f16,
                  "tessera: a bounded cast takes f32, bf16 or f16; cast<f32>(v) first");
    return Value<To, R>(detail::cast(To, v.node(at), at, true));
}

/// The same bits under another type of the same width.
template <Element To, Element T, int R>
Value<To, R> bitcast(const Value<T, R>& v, std::source_location at = std::source_location::current()) {
    static_assert(bits_of(To) == bits_of(T), "tessera: bitcast keeps the width; these two types differ in it");
    return Value<To, R>(detail::bitcast(To, v.node(at), at));
}

/// Sum along axis N, which stays with extent 1. The order is that of the layout: fixed, but not ascending. It is a sum
/// in T: one of bf16 rounds at every addition; cast<f32>(v) first.
template <Element T, int R, int N>
Value<T, R> reduce_sum(const Value<T, R>& v, Axis<N>, std::source_location at = std::source_location::current()) {
    static_assert(N >= 0 && N < R, "tessera: the reduction names an axis that the value does not have");
    static_assert(detail::has_arithmetic<T>, "tessera: this element type has no arithmetic; cast<f32>(v) first");
    return Value<T, R>(detail::reduce(ir::ReduceOp::sum, v.node(at), N, at));
}
/// Σ a · b along axis N, which stays with extent 1. What a thread holds is one fma chain from 0, in the order of the
/// layout; then sums as in reduce_sum.
template <int R, int N>
Value<f32, R> reduce_dot(const Value<f32, R>& a, const Value<f32, R>& b, Axis<N>,
                         std::source_location at = std::source_location::current()) {
    static_assert(N >= 0 && N < R, "tessera: the reduction names an axis that the value does not have");
    return Value<f32, R>(detail::dot(a.node(at), b.node(at), N, at));
}
/// Largest element along axis N, which stays with extent 1; NaN is dropped, a line of NaN gives −∞.
template <Element T, int R, int N>
Value<T, R> reduce_max(const Value<T, R>& v, Axis<N>, std::source_location at = std::source_location::current()) {
    static_assert(N >= 0 && N < R, "tessera: the reduction names an axis that the value does not have");
    static_assert(detail::has_arithmetic<T> || T == Element::boolean,
                  "tessera: this element type has no order; cast<f32>(v) first");
    return Value<T, R>(detail::reduce(ir::ReduceOp::max, v.node(at), N, at));
}
/// Smallest element along axis N, which stays with extent 1; NaN is dropped, a line of NaN gives +∞.
template <Element T, int R, int N>
Value<T, R> reduce_min(const Value<T, R>& v, Axis<N>, std::source_location at = std::source_location::current()) {
    static_assert(N >= 0 && N < R, "tessera: the reduction names an axis that the value does not have");
    static_assert(detail::has_arithmetic<T> || T == Element::boolean,
                  "tessera: this element type has no order; cast<f32>(v) first");
    return Value<T, R>(detail::reduce(ir::ReduceOp::min, v.node(at), N, at));
}

/// Bitwise or along axis N, which stays with extent 1.
template <Element T, int R, int N>
Value<T, R> reduce_or(const Value<T, R>& v, Axis<N>, std::source_location at = std::source_location::current()) {
    static_assert(N >= 0 && N < R, "tessera: the reduction names an axis that the value does not have");
    static_assert(is_integer(T), "tessera: only whole numbers have bits to join");
    return Value<T, R>(detail::reduce(ir::ReduceOp::bit_or, v.node(at), N, at));
}

namespace detail {
template <Element T, int R, int N>
constexpr void require_summable() {
    static_assert(N >= 0 && N < R, "tessera: the sum names an axis that the value does not have");
    static_assert(T == f32 || (is_integer(T) && bits_of(T) >= 32),
                  "tessera: running sums are for f32 and whole numbers of 32 or 64 bits; cast<f32>(v) first");
}
}  // namespace detail

/// Running sums along axis N: each element becomes the sum of those up to and with it. f32 is added in an order that
/// the layout fixes: within a thread first, then lanes, then warps.
template <Element T, int R, int N>
Value<T, R> inclusive_sum(const Value<T, R>& v, Axis<N>, std::source_location at = std::source_location::current()) {
    detail::require_summable<T, R, N>();
    return Value<T, R>(detail::scan(v.node(at), N, false, at));
}
/// The same without the element itself: the first becomes 0.
template <Element T, int R, int N>
Value<T, R> exclusive_sum(const Value<T, R>& v, Axis<N>, std::source_location at = std::source_location::current()) {
    detail::require_summable<T, R, N>();
    return Value<T, R>(detail::scan(v.node(at), N, true, at));
}

/// Whether the mask holds anywhere in the block's tile, as one truth for all its threads; see Kernel::when.
template <int R>
Value<boolean, 0> any(const Value<boolean, R>& mask, std::source_location at = std::source_location::current()) {
    return Value<boolean, 0>(detail::reduce_all(ir::ReduceOp::max, mask.node(at), at));
}
/// Whether it holds everywhere.
template <int R>
Value<boolean, 0> all(const Value<boolean, R>& mask, std::source_location at = std::source_location::current()) {
    return Value<boolean, 0>(detail::reduce_all(ir::ReduceOp::min, mask.node(at), at));
}

/// A truth that each warp has for itself, over the elements of a tile that its threads hold: what Kernel::when takes
/// where warps may go different ways.
class WarpTruth {
public:
    explicit WarpTruth(detail::Ref node) : node_(node) {}
    detail::Ref node() const { return node_; }

private:
    detail::Ref node_;
};
/// Whether the mask holds for any element that the warp holds.
template <int R>
WarpTruth warp_any(const Value<boolean, R>& mask, std::source_location at = std::source_location::current()) {
    return WarpTruth(detail::warp_vote(ir::ReduceOp::max, mask.node(at), at));
}
/// Whether it holds for all of them.
template <int R>
WarpTruth warp_all(const Value<boolean, R>& mask, std::source_location at = std::source_location::current()) {
    return WarpTruth(detail::warp_vote(ir::ReduceOp::min, mask.node(at), at));
}

/// Position along axis N of each element of a tile of these extents, counted from the tile's first.
template <int N, int R>
Value<i64, R> coordinates(const std::int64_t (&extents)[R], Axis<N>,
                          std::source_location at = std::source_location::current()) {
    static_assert(N >= 0 && N < R, "tessera: coordinates names an axis that the tile does not have");
    return Value<i64, R>(detail::coordinate(detail::shape_of(extents), N, at));
}

/// A tile of these extents that holds one value everywhere.
template <Element T, int R>
Value<T, R> full(const std::int64_t (&extents)[R], const Value<T, 0>& value,
                 std::source_location at = std::source_location::current()) {
    return Value<T, R>(detail::broadcast_to(value.node(at), detail::shape_of(extents), at));
}

/// ⌈a / b⌉ for a ≥ 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline Index ceil_div(const Index& a, std::int64_t b) { return b == 1 ? a : (a + (b - 1)) / b; }
/// Smallest multiple of b that is ≥ a.
constexpr std::int64_t align_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }
inline Index align_up(const Index& a, std::int64_t b) { return b == 1 ? a : ceil_div(a, b) * b; }

}  // namespace tessera

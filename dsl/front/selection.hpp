#pragma once

#include "dsl/front/value.hpp"

// Choosing elements along an axis. The order is total: larger values first, −0 equals +0, NaN last, and of equal
// elements the one with the lower index. So indices are distinct and in range, whatever a line holds. A line must lie
// in one warp: load with per_thread and lanes = 32.

namespace tessera {

namespace detail {
Ref rank_key(Ref value, int axis, const Place& place);
Ref least(Ref value, int axis, int first, int count, const Place& place);
Ref match(Ref value, int axis, const Place& place);

template <Element T, int R, int N>
constexpr void require_selectable() {
    static_assert(N >= 0 && N < R, "tessera: the selection names an axis that the value does not have");
    static_assert(T == f32 || T == i32 || T == u32, "tessera: selection is for f32, i32 and u32; cast<f32>(v) first");
}
}  // namespace detail

/// Where elements stand in the order along axis N, as whole numbers that all differ: the first has the smallest. The
/// low 32 bits are the index along the axis, the high ones follow from the value.
template <Element T, int R, int N>
Value<u64, R> rank_key(const Value<T, R>& v, Axis<N>, std::source_location at = std::source_location::current()) {
    detail::require_selectable<T, R, N>();
    return Value<u64, R>(detail::rank_key(v.node(at), N, at));
}

/// The `count` smallest elements along axis N, ascending, of whole numbers that all differ. count: 1 … 32, at most the
/// extent. The axis gets the least power of two ≥ count as its extent; past the last element lies the largest number.
template <Element T, int R, int N>
Value<T, R> smallest(const Value<T, R>& v, Axis<N>, int count,
                     std::source_location at = std::source_location::current()) {
    static_assert(N >= 0 && N < R, "tessera: the selection names an axis that the value does not have");
    static_assert(is_integer(T) && bits_of(T) >= 32,
                  "tessera: smallest is for whole numbers of 32 or 64 bits; see rank_key and top_k");
    return Value<T, R>(detail::least(v.node(at), N, 0, count, at));
}

/// Indices of the `count` first elements along axis N in the order above, first to last. The axis gets the least power
/// of two ≥ count as its extent; past the last index lies −1.
template <Element T, int R, int N>
Value<i32, R> top_k(const Value<T, R>& v, Axis<N>, int count,
                    std::source_location at = std::source_location::current()) {
    detail::require_selectable<T, R, N>();
    const detail::Ref keys = detail::least(detail::rank_key(v.node(at), N, at), N, 0, count, at);
    return Value<i32, R>(detail::cast(i32, keys, at));
}

/// Which elements are among the `count` first along axis N.
template <Element T, int R, int N>
Value<boolean, R> in_top_k(const Value<T, R>& v, Axis<N>, int count,
                           std::source_location at = std::source_location::current()) {
    detail::require_selectable<T, R, N>();
    const detail::Ref keys = detail::rank_key(v.node(at), N, at);
    const detail::Ref last = detail::least(keys, N, count - 1, count, at);
    return Value<boolean, R>(detail::binary(ir::BinaryOp::le, keys, last, at));
}

/// Index of the first element along axis N in the order above; the axis stays with extent 1.
template <Element T, int R, int N>
Value<i32, R> arg_max(const Value<T, R>& v, Axis<N>, std::source_location at = std::source_location::current()) {
    detail::require_selectable<T, R, N>();
    const detail::Ref key = detail::reduce(ir::ReduceOp::min, detail::rank_key(v.node(at), N, at), N, at);
    return Value<i32, R>(detail::cast(i32, key, at));
}

/// Which elements along axis N, of extent 32, equal this one: bit j stands for element j. The axis must be the lanes of
/// a warp: load with per_thread of 1 and lanes = 32.
template <Element T, int R, int N>
Value<u32, R> match(const Value<T, R>& v, Axis<N>, std::source_location at = std::source_location::current()) {
    static_assert(N >= 0 && N < R, "tessera: the match names an axis that the value does not have");
    static_assert(is_integer(T) && bits_of(T) >= 32, "tessera: match is for whole numbers of 32 or 64 bits");
    return Value<u32, R>(detail::match(v.node(at), N, at));
}

/// Bits that are set.
template <int R>
Value<u32, R> popcount(const Value<u32, R>& v, std::source_location at = std::source_location::current()) {
    return Value<u32, R>(detail::unary(ir::UnaryOp::popcount, v.node(at), at));
}

}  // namespace tessera

#include "dsl/front/selection.hpp"

#include <bit>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/recorder.hpp"

namespace tessera::detail {

namespace {

/// Larger values get smaller numbers.
Ref order_of(Ref value, const Place& at) {
    const auto number = [&](std::uint64_t n) { return constant(u32, n, at); };
    constexpr std::uint64_t sign = 0x80000000u;
    if (value->type == u32) return unary(ir::UnaryOp::bit_not, value, at);
    if (value->type == i32) return binary(ir::BinaryOp::bit_xor, bitcast(u32, value, at), number(sign - 1), at);
    // 0 − v: both zeros become +0, and every NaN the one whose bits are largest.
    const Ref bits = bitcast(u32, binary(ir::BinaryOp::sub, constant(f32, 0.0, at), value, at), at);
    const Ref spread = binary(ir::BinaryOp::shr, bitcast(i32, bits, at), constant(i32, std::int64_t{31}, at), at);
    const Ref flip = binary(ir::BinaryOp::bit_or, bitcast(u32, spread, at), number(sign), at);
    return binary(ir::BinaryOp::bit_xor, bits, flip, at);
}

}  // namespace

Ref rank_key(Ref value, int axis, const Place& place) {
    const Ref index = cast(u64, cast(u32, coordinate(value->shape, axis, place), place), place);
    const Ref high = binary(ir::BinaryOp::shl, cast(u64, order_of(value, place), place),
                            constant(u64, std::uint64_t{32}, place), place);
    return binary(ir::BinaryOp::bit_or, high, index, place);
}

Ref least(Ref value, int axis, int first, int count, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(value, place);
    const std::int64_t extent = value->shape[axis];
    if (count < 1 || count > extent || count > ir::Least::most)
        throw UsageError(place, fmt::format("a selection of {} along axis {} of a tile {}: from 1 to {}", count, axis,
                                            text_of(value->shape), std::min<std::int64_t>(extent, ir::Least::most)));
    Shape shape = value->shape;
    shape[axis] = static_cast<std::int64_t>(std::bit_ceil(static_cast<unsigned>(count - first)));
    return r.bind(value->type, shape, place, ir::Least{value, axis, first, count});
}

Ref match(Ref value, int axis, const Place& place) {
    Recorder& r = Recorder::active(place);
    r.require_open(value, place);
    if (value->shape[axis] != 32)
        throw UsageError(
            place, fmt::format("match along axis {} of a tile {}: the axis has 32 elements, one for each lane", axis,
                               text_of(value->shape)));
    return r.bind(u32, value->shape, place, ir::Match{value, axis});
}

}  // namespace tessera::detail

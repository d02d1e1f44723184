#pragma once

#include <cstdint>

namespace tessera::ir {

enum class UnaryOp : std::uint8_t { neg, abs, bit_not, rsqrt, popcount, exp, sqrt, log1p };

/// Comparisons give boolean. `min` and `max` drop NaN and order −0 below +0. Integer `div` and `mod` truncate.
/// `min_nan` and `max_nan` (f16, bf16, f32) are NaN where an operand is, the one with all bits set below the sign.
/// `max_magnitude` (f16, bf16) is the larger |·| under the product of the signs; NaN is dropped.
/// Shifts take a count below the width. `div_bounded` (f32) has the bits of `div` for b and |a/b| in
/// [2⁻¹⁰⁰, 2¹⁰⁰] and finite |a| ≥ 2⁻¹⁰⁰, for a = ±0, and for b = 1 and 2; NaN for infinite a; elsewhere it is
/// undefined.
enum class BinaryOp : std::uint8_t {
    add,
    sub,
    mul,
    div,
    div_bounded,
    mod,
    min,
    max,
    max_magnitude,
    min_nan,
    max_nan,
    bit_and,
    bit_or,
    bit_xor,
    shl,
    shr,
    eq,
    ne,
    lt,
    le,
    gt,
    ge,
};

/// `bit_or`: of whole numbers. `dot`: the sum of a product of f32, whose terms a thread adds by fma.
enum class ReduceOp : std::uint8_t { sum, max, min, bit_or, dot };

enum class Space : std::uint8_t { global, shared };

/// What a cache may count on. `streaming`: the program does not come back to these bytes; others may have their place.
/// `kept`, of loads alone: it soon does, and others are to make way.
enum class Cache : std::uint8_t { normal, streaming, kept };

enum class Role : std::uint8_t { input, output, inout };

/// Who makes the copies of k.pipelined. vectors: every thread its share (cp.async); what is outside of the tensor
/// becomes zeros. bulk: the copy engine, whole rows of the pieces that a thread each starts (cp.async.bulk); rows must
/// be multiples of 16 bytes at such addresses and lie wholly inside the tensor or outside, where they are left as they
/// were. tensor: the copy engine, a whole piece by one instruction (cp.async.bulk.tensor) through a tensor map that the
/// launch makes; what is outside becomes zeros, wherever the edge is; a launch with a tensor of no elements is refused.
/// The tensor has 1 to 5 axes, the last contiguous, its base and other strides known to be multiples of 16 bytes; the
/// piece has sides of at most 256 and, along the last axis, begins at a multiple of 16 bytes and has such rows. It lies
/// dense in its tile, whose swizzle is none or what the engine writes for rows of 32, 64, 128 bytes: {bits, base, 3},
/// bits 1, 2, 3 and 2^base elements in 16 bytes.
enum class Copies : std::uint8_t { vectors, bulk, tensor };

}  // namespace tessera::ir

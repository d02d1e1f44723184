#pragma once

#include <cstdint>

namespace tessera::ir {

enum class UnaryOp : std::uint8_t { neg, abs, bit_not, rsqrt };

/// Comparisons give boolean. `min` and `max` drop NaN and order −0 below +0. Integer `div` and `mod` truncate.
/// Shifts take a count below the width.
enum class BinaryOp : std::uint8_t {
    add, sub, mul, div, mod, min, max, bit_and, bit_or, bit_xor, shl, shr, eq, ne, lt, le, gt, ge,
};

enum class ReduceOp : std::uint8_t { sum, max, min };

enum class Space : std::uint8_t { global, shared };

enum class Role : std::uint8_t { input, output, inout };

}  // namespace tessera::ir

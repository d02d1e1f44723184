#pragma once

#include <cstdint>

#include "dsl/base/element.hpp"
#include "dsl/ir/ops.hpp"

// What the operators mean on one element, by the rules in dsl/ir/ops.hpp and node.hpp. Elements travel as their own
// encoding in the low bits of a word. Types: f32, bf16, e4m3, e2m1, integers, boolean; anything else throws.

namespace tessera::test {

std::uint64_t apply(ir::UnaryOp op, Element type, std::uint64_t a);

/// `type` is that of the operands; comparisons give 0 or 1.
std::uint64_t apply(ir::BinaryOp op, Element type, std::uint64_t a, std::uint64_t b);

/// By value: to nearest even, saturating for e4m3; float to integer truncates and saturates.
std::uint64_t convert(Element from, Element to, std::uint64_t bits);

/// Value of a floating-point element.
float float_value(Element type, std::uint64_t bits);
/// Encoding of x in a floating-point type, to nearest even.
std::uint64_t float_bits(Element type, float x);
/// Value of an integer or boolean element; u64 as the same 64 bits.
std::int64_t integer_value(Element type, std::uint64_t bits);

}  // namespace tessera::test

#pragma once

#include <cstddef>

#include "dsl/base/element.hpp"
#include "dsl/ir/ops.hpp"

// The elementwise operations as tight loops. A register holds an element as its code, zero-extended to 32 bits (64 for
// 64-bit elements); booleans are 0 or 1. Small floats compute in f32 and round once; f32 results that are NaN get the
// device's bits.

namespace tessera::host {

/// out[i] = f(in[0][i], in[1][i], …) for i < n. `out` overlaps no input.
using LaneFunction = void (*)(void* out, const void* const* in, std::size_t n);

/// Each returns null where the operation has no meaning for the element.
LaneFunction unary_function(ir::UnaryOp op, Element type);
LaneFunction binary_function(ir::BinaryOp op, Element operand_type);
LaneFunction cast_function(Element from, Element to);

/// f32, in: a, b, c. out = a · b + c, rounded once.
LaneFunction fma_function();
/// f32, in: a, b. out = 1 where a bounded division of them has no meaning: b, |a| or |a / b| outside of [2^-100,
/// 2^100], unless a is 0 or one of them is NaN.
LaneFunction unbounded_function();
/// f32 that was `from`. out = 1 where a bounded cast of that to e2m1 has no meaning: for magnitudes of 7 and more, and
/// of f16 for more than eight significant bits, but not for NaN.
LaneFunction past_e2m1_function(Element from);

/// in: e2m1 codes, then the words of a table: of e2m1 one, twice. out = the entry of the code's magnitude, negated
/// where the code is negative if it is `with_sign`; u8 has no sign. Null for other types.
LaneFunction lookup_function(Element type, bool with_sign);
/// in: condition (boolean), then the two choices.
LaneFunction select_function(bool wide);
/// in: one register of the same kind.
LaneFunction copy_function(bool wide);
/// in: a uniform register, whose value all threads get.
LaneFunction broadcast_function(bool wide);
/// in: a lane register and a uniform u32, the mask. Warps are runs of 32 threads; a partner past the end is oneself.
LaneFunction shuffle_function(bool wide);
/// in: a lane register of i32, u32 or boolean. All lanes of a warp get the reduction over them; null for other types.
LaneFunction warp_reduce_function(ir::ReduceOp op, Element type);
/// in: a lane register. out: which lanes of the warp hold the same, a bit each.
LaneFunction match_function(bool wide);
/// in: a word and a uniform u32. out = (word >> amount) & the low `bits` bits (4, 8, 16 or 32), as a 32-bit register.
LaneFunction extract_function(bool wide_word, int bits);
/// in: a word, a 32-bit register and a uniform u32. out = word | (value << amount).
LaneFunction insert_function(bool wide_word);

/// Whether a register of this element holds 64 bits.
constexpr bool is_wide(Element e) { return bits_of(e) == 64; }

}  // namespace tessera::host

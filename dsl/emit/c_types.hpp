#pragma once

#include "dsl/base/element.hpp"

// How element types are spelled in the generated text. Three views of one element:
//   storage   what a pointer in global or shared memory points to;
//   scalar    the type of a rank-0 value in an expression;
//   word      the type of a register of an array.

namespace tessera::emit {

/// Floats that have no C++ type: a scalar is an `unsigned` whose low bits hold it and whose other bits mean nothing.
constexpr bool is_narrow_float(Element e) { return is_float(e) && bits_of(e) < 32; }

/// 8 and 16 bits; a scalar is an `int` or `unsigned` with a value in range.
constexpr bool is_small_integer(Element e) { return is_integer(e) && bits_of(e) < 32; }

const char* storage_type(Element e);
const char* scalar_type(Element e);
/// Sub-32-bit and packed elements live in `unsigned`, others in their own type.
const char* word_type(Element e, int pack);

}  // namespace tessera::emit

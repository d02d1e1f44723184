#pragma once

#include <cstdint>

#include "dsl/base/element.hpp"
#include "dsl/emit/text.hpp"

namespace tessera::emit {

/// A constant of `type`, given by its encoding, as a scalar. Integral floats print in decimal, others as hex floats
/// with the decimal in a comment, NaN and infinities by their bits.
Text literal(Element type, std::uint64_t bits);

/// The same as an operand of a bit operation: integers ≥ 0 in hexadecimal.
Text bit_literal(Element type, std::uint64_t bits);

/// `0x…u`
Text word_literal(std::uint32_t word);

}  // namespace tessera::emit

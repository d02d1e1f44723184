#pragma once

#include "dsl/base/element.hpp"
#include "runtime/launch/scalar.hpp"

namespace tessera::runtime {

/// The number in the encoding of `type`, from the low bits. False if it does not fit: a fraction for an integer, or an
/// integer out of range.
bool scalar_bits(Element type, const Scalar& scalar, std::uint64_t& bits);

}  // namespace tessera::runtime

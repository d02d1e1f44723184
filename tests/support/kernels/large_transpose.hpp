#pragma once

#include "dsl/base/shape.hpp"
#include "runtime/device.hpp"

namespace tessera::test {

/// Transposes a batch of one-byte matrices too large for the usual check; true if every byte is right.
bool transposes_large(const Device& device, const Shape& extents);

}  // namespace tessera::test

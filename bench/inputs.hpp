#pragma once

#include "runtime/tensor.hpp"

namespace tessera::bench {

/// Random data, never zeros (zeros run faster): bits of moderate magnitude for BF16 and FP32, any bits for others. One
/// megabyte is made on the host and repeated.
Tensor random_tensor(const Stream& stream, Element element, const Shape& extents, unsigned seed);

}  // namespace tessera::bench

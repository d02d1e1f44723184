#pragma once

#include "runtime/stream.hpp"
#include "runtime/tensor_view.hpp"

// Checks of a kernel's arguments that every category needs. `function` and `name` are those the user wrote.

namespace tessera {

/// Errors: UsageError unless the tensor lies where the stream's work can reach it.
void check_device(const char* function, const char* name, const Stream& stream, const TensorView& x);
/// Errors: UsageError unless the tensor has this type and these extents, is dense, and lies on the stream's device.
void check_dense(const char* function, const char* name, const Stream& stream, const TensorView& x, Element element,
                 const Shape& extents);

}  // namespace tessera

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

/// For kernels that move elements to other places. Errors: UsageError if `out` surely covers memory of `in`: if one of
/// them is dense and the other begins in it.
void check_apart(const char* function, const char* out_name, const TensorView& out, const char* in_name,
                 const TensorView& in);

}  // namespace tessera

#pragma once

#include <initializer_list>

#include "kernels/check.hpp"

// What the checks of arguments share.

namespace tessera::engram {

/// Errors: UsageError unless the view has this type and rank, no extent below 1 but the first, and lies on the
/// stream's device.
void check_kind(const char* function, const char* name, const Stream& stream, const TensorView& x, Element element,
                int rank);
/// Errors: UsageError unless it is a dense bf16 matrix (C, H) with at least one element.
void check_weight(const char* function, const char* name, const Stream& stream, const TensorView& x);

/// All elements along one axis.
TensorView flat(const TensorView& x);

/// Whether all addresses are multiples of 16 bytes.
bool at_16_bytes(std::initializer_list<const TensorView*> views);

}  // namespace tessera::engram

#pragma once

#include <initializer_list>

#include "runtime/stream.hpp"
#include "runtime/tensor_view.hpp"

// The host side of the hyper-connection kernels: leading axes are flattened to tokens, and arguments are checked before
// anything is allocated or launched.

namespace tessera::mhc {

inline constexpr std::int64_t most_streams = 8;

/// Tokens of a tensor whose last `tail` axes belong to one token. Errors: UsageError if it has fewer axes.
std::int64_t tokens_of(const char* function, const char* name, const TensorView& t, int tail);

/// The tensor as (tokens, tail…). It may have any leading axes, and one axis of extent 1 at the end.
/// Errors: UsageError unless it is dense, of this element type and shape, and on the stream's device.
TensorView per_token(const char* function, const char* name, const Stream& stream, const TensorView& t, Element element,
                     std::int64_t tokens, const Shape& tail);
/// The same for f32 (tokens, columns) whose tokens may lie any stride ≥ columns apart, such as a slice of columns.
TensorView strided_rows(const char* function, const char* name, const Stream& stream, const TensorView& t,
                        std::int64_t tokens, std::int64_t columns);
/// Errors: UsageError unless it is dense, of this element type and of exactly these extents.
TensorView parameter(const char* function, const char* name, const Stream& stream, const TensorView& t, Element element,
                     const Shape& extents);

/// Errors: UsageError unless 1 ≤ m ≤ 8.
void check_streams(const char* function, std::int64_t m);
/// Errors: UsageError unless h ≥ 1.
void check_hidden(const char* function, std::int64_t h);
/// Errors: UsageError for NaN, an infinity or a negative number.
void check_eps(const char* function, const char* name, float eps);

/// Errors: UsageError unless 1 ≤ repeat ≤ 2^16: how often Sinkhorn normalises.
void check_repeat(const char* function, std::int64_t repeat);

/// Whether all of them begin at a multiple of 16 bytes.
bool aligned(std::initializer_list<const TensorView*> tensors);

/// `leading` (its last `tail` axes left out), then `last`.
Shape with_tail(const Shape& leading, int tail, const Shape& last);

}  // namespace tessera::mhc

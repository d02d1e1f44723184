#pragma once

#include <cstddef>

#include "dsl/base/element.hpp"

namespace tessera::host {

/// Elements that a lane holds of both operands of one instruction, at most.
inline constexpr std::size_t most_mma_elements = 24;

/// One instruction of the tensor cores by each warp of `threads` threads; who holds what: ir/tensor_core.hpp. ins: four
/// f32, then a lane's elements of a and of b, a register each. out[i] = in[i] + Σ, of which products and sum are exact,
/// to 53 bits, and the result is rounded once.
void multiply_and_add(Element type, void* const* out, const void* const* in, std::size_t threads);

}  // namespace tessera::host

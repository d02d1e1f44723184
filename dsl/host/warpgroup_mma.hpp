#pragma once

#include <cstddef>
#include <cstdint>

#include "dsl/ir/program.hpp"

namespace tessera::host {

/// Words of the result that a lane holds of one instruction of four warps, at most; and what else it takes: a's
/// elements or an offset, and b's offset.
inline constexpr std::size_t most_product_sums = 128, most_product_operands = 17;

/// An operand in shared memory: its first element lies at this offset, before the swizzle.
struct SharedMatrix {
    const std::byte* base = nullptr;
    const ir::SharedTile* tile = nullptr;
    std::int64_t offset = 0;
};

/// One instruction of the tensor cores by the four warps from thread `first` on; who holds what: ir/tensor_core.hpp.
/// ins: columns / 2 f32, of each 8 columns the two of a row and the two of the row 8 below, then a lane's elements of a
/// unless `a` says where it lies. out[i] = in[i] + Σ, of which products and sum are exact, to 53 bits, and the result
/// is rounded once.
void multiply_and_add(Element type, int columns, void* const* out, const void* const* in, std::size_t first,
                      const SharedMatrix* a, const SharedMatrix& b);

}  // namespace tessera::host

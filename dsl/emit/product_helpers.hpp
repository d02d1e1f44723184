#pragma once

#include <compare>
#include <string>

#include "dsl/base/element.hpp"

namespace tessera::emit {

/// The device function that starts one instruction of four warps: d [64, columns] += a · bᵀ, a from registers or, like
/// b, by the descriptor of a matrix in shared memory.
struct ProductHelper {
    Element type;
    int columns;
    bool registers;

    friend auto operator<=>(const ProductHelper&, const ProductHelper&) = default;
};

/// "start_mma_bf16_48", with a in registers "start_mma_bf16_48_registers".
std::string name_of(const ProductHelper& helper);
std::string text_of(const ProductHelper& helper);

}  // namespace tessera::emit

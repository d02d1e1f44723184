#pragma once

#include "dsl/base/element.hpp"

// Instructions of the tensor cores that all lanes of a warp execute together: d [16, 8] of f32 += a [16, depth] · b [8,
// depth]ᵀ. Lane 4 g + t holds, i ascending,
//   of a  four words: row g + 8 · (i % 2), group t + 4 · (i / 2)
//   of b  two words:  row g, group t + 4 · i
//   of d  four f32:   row g + 8 · (i / 2), column 2 t + i % 2
// where group n of a row is the word of its n-th run of elements along the depth.

namespace tessera::ir {

struct TensorCoreInstruction {
    Element type;
    int depth;
    const char* name;  // of the shape and types, as PTX spells them
};

inline constexpr TensorCoreInstruction tensor_core_instructions[] = {
    {tf32, 8, "m16n8k8.row.col.f32.tf32.tf32.f32"},
    {bf16, 16, "m16n8k16.row.col.f32.bf16.bf16.f32"},
    {f16, 16, "m16n8k16.row.col.f32.f16.f16.f32"},
    {e4m3, 32, "m16n8k32.row.col.f32.e4m3.e4m3.f32"},
};

constexpr int mma_rows = 16, mma_columns = 8;

/// The one for operands of this type; null if there is none.
constexpr const TensorCoreInstruction* tensor_core_instruction(Element type) {
    for (const TensorCoreInstruction& row : tensor_core_instructions)
        if (row.type == type) return &row;
    return nullptr;
}

}  // namespace tessera::ir

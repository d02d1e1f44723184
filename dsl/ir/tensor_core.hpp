#pragma once

#include "dsl/ir/program.hpp"

// Two engines. Instructions that all lanes of a warp execute together: d [16, 8] of f32 += a [16, depth] · b [8,
// depth]ᵀ. Lane 4 g + t holds, i ascending,
//   of a  four words: row g + 8 · (i % 2), group t + 4 · (i / 2)
//   of b  two words:  row g, group t + 4 · i
//   of d  four f32:   row g + 8 · (i / 2), column 2 t + i % 2
// where group n of a row is the word of its n-th run of elements along the depth.
//
// Instructions that four warps execute together (wgmma of SM90) and that are under way until they are waited for: d
// [64, N], N a multiple of 8 up to 256. Warp w holds the rows from 16 w on; of these and each 8 columns, a lane has
// what it has above. b, and a unless a lane has its four words, are read from shared memory, in the order along the
// depth that they have there. Rows of 32, 64 or 128 bytes lie side by side; the 16-byte pieces of a row are swizzled by
// its number, and the tile begins at a multiple of 8 rows' bytes.

namespace tessera::ir {

struct TensorCoreInstruction {
    Element type;
    int depth;
    const char* name;       // of the shape and types, as PTX spells them
    const char* warpgroup;  // what follows m64nN in the name of that of four warps; null: there is none
};

inline constexpr TensorCoreInstruction tensor_core_instructions[] = {
    {tf32, 8, "m16n8k8.row.col.f32.tf32.tf32.f32", "k8.f32.tf32.tf32"},
    {bf16, 16, "m16n8k16.row.col.f32.bf16.bf16.f32", "k16.f32.bf16.bf16"},
    {f16, 16, "m16n8k16.row.col.f32.f16.f16.f32", "k16.f32.f16.f16"},
    {e4m3, 32, "m16n8k32.row.col.f32.e4m3.e4m3.f32", "k32.f32.e4m3.e4m3"},
};

constexpr int mma_rows = 16, mma_columns = 8;
constexpr int warpgroup_rows = 64, most_warpgroup_columns = 256, warpgroup_threads = 128;

/// The one for operands of this type; null if there is none.
constexpr const TensorCoreInstruction* tensor_core_instruction(Element type) {
    for (const TensorCoreInstruction& row : tensor_core_instructions)
        if (row.type == type) return &row;
    return nullptr;
}

/// Whether devices of this kind have the instructions of four warps.
constexpr bool has_warpgroup_instructions(int sm) { return sm >= 90 && sm < 100; }

/// Bytes of a row of a tile: the extent of its last axis.
inline std::int64_t row_bytes(const SharedTile& tile) { return tile.shape.back() * bits_of(tile.type) / 8; }

/// Whether the rows and the swizzle of a tile are such that instructions of four warps can read it.
inline bool fits_tensor_cores(const SharedTile& tile) {
    if (tile.shape.rank() < 2 || tile.shape[tile.shape.rank() - 2] % 8 != 0 || !tensor_core_instruction(tile.type))
        return false;
    const std::int64_t bytes = row_bytes(tile);
    if (bytes != 32 && bytes != 64 && bytes != 128) return false;
    return (std::int64_t{16} << tile.swizzle.bits) == bytes && tile.swizzle.shift == 3 &&
           (std::int64_t{bits_of(tile.type)} << tile.swizzle.base) == 128;
}

}  // namespace tessera::ir

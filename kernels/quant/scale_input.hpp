#pragma once

#include "dsl/front/kernel.hpp"
#include "kernels/quant.hpp"
#include "runtime/compiled_kernel.hpp"

// Scale factors that come with quantized input: inside kernels, and checked on the host side.

namespace tessera::quant {

/// How data with block scales is cut into tiles of rows × cols, so that a tile's scales are a rectangle.
struct ScaledTile {
    std::int64_t rows, cols;
    /// About `elements` values: whole blocks or whole parts of blocks along both axes, and a multiple of `pack`
    /// columns.
    static ScaledTile choose(std::int64_t hidden, std::int64_t block_rows, std::int64_t block_columns,
                             std::int64_t elements, std::int64_t pack);
};

/// The tensor parameter "x_sf".
class ScaleInput {
public:
    ScaleInput(Kernel& k, ScaleLayout layout, const Index& tokens, std::int64_t hidden, std::int64_t block_rows,
               std::int64_t block_columns);

    /// Scales of the data tile (m, n): extents [rows or 1, columns of blocks]. Byte 0 of packed scales reads as 0.
    Value<f32, 2> load(const ScaledTile& tile, const Index& m, const Index& n) const;
    /// Extents of that tile along the columns, and columns of data that share one.
    std::int64_t groups(const ScaledTile& tile) const { return ceil_div(tile.cols, block_columns_); }
    std::int64_t shared_columns(const ScaledTile& tile) const { return tile.cols / groups(tile); }

private:
    ScaleLayout layout_;
    std::int64_t block_rows_, block_columns_;
    Global<f32, 2> numbers_{detail::ViewSpec{}};
    Global<ue8m0, 2> bytes_{detail::ViewSpec{}};
};

/// Errors: UsageError naming what does not fit.
void check_quantized(const char* function, const Stream& stream, const QuantizedView& x);

/// x_sf as the kernel's parameter takes it, and its scalar "x_sf_pitch".
struct ScaleArgument {
    TensorView view;
    bool packed;
    std::int64_t pitch;
};
ScaleArgument scale_argument(const QuantizedView& x);

}  // namespace tessera::quant

#pragma once

#include <numeric>

#include "dsl/front/kernel.hpp"
#include "kernels/quant.hpp"
#include "runtime/compiled_kernel.hpp"

// Scale factors that come with quantized input: inside kernels, and checked on the host side.

namespace tessera::quant {

/// How data with block scales is cut into tiles of rows × cols.
struct ScaledTile {
    std::int64_t rows, cols;
    /// About `elements` values: rows within one block, columns a power of two.
    static ScaledTile choose(std::int64_t hidden, std::int64_t block_rows, std::int64_t elements);
};

/// The tensor parameter "x_sf".
class ScaleInput {
public:
    ScaleInput(Kernel& k, ScaleLayout layout, const Index& tokens, std::int64_t hidden, std::int64_t block_rows,
               std::int64_t block_columns);

    /// Scales of the data tile (m, n): extents [rows or 1, cols / shared_columns]. Byte 0 of packed scales reads as 0.
    Value<f32, 2> load(const ScaledTile& tile, const Index& m, const Index& n) const;
    /// Columns of data that share a scale of that tile: a block's, or the part of it that tiles are made of.
    std::int64_t shared_columns(const ScaledTile& tile) const { return std::gcd(tile.cols, block_columns_); }

private:
    template <class Columns>
    Value<f32, 2> window(std::int64_t rows, std::int64_t columns, const Index& row, const Columns& column) const;

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

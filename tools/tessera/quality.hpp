#pragma once

#include <cstdint>
#include <span>

namespace tessera::tool {

/// Extents of a 2-D tensor and of its scale blocks.
struct BlockGrid {
    std::int64_t rows = 0, columns = 0;
    std::int64_t block_rows = 128, block_columns = 128;

    std::int64_t scale_columns() const { return (columns + block_columns - 1) / block_columns; }
    std::int64_t scale_rows() const { return (rows + block_rows - 1) / block_rows; }
};

/// What quantization cost, summed over tensors.
class Quality {
public:
    /// Adds a tensor: its values, the E4M3 codes and the scales that `value ≈ code · scale`, all row-major.
    void add(const BlockGrid& grid, std::span<const float> values, std::span<const std::uint8_t> codes,
             std::span<const float> scales);

    /// Errors relative to the largest magnitude of the block; 0 in blocks of zeros.
    double max_error() const { return max_error_; }
    double mean_error() const { return count_ == 0 ? 0.0 : error_sum_ / static_cast<double>(count_); }
    /// 10·log10(Σx² / Σ(x − x̂)²) in dB; infinite where nothing was lost.
    double signal_to_noise() const;
    std::int64_t values() const { return count_; }

private:
    double max_error_ = 0, error_sum_ = 0, signal_ = 0, noise_ = 0;
    std::int64_t count_ = 0;
};

}  // namespace tessera::tool

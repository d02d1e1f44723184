#include "tools/tessera/quality.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "dsl/base/convert.hpp"

namespace tessera::tool {

namespace {

const std::array<float, 256>& e4m3_values() {
    static const std::array<float, 256> table = [] {
        std::array<float, 256> values{};
        for (std::uint32_t code = 0; code < 256; ++code) values[code] = convert::from_e4m3(code);
        return values;
    }();
    return table;
}

struct BlockSums {
    double amax = 0, largest = 0, errors = 0, signal = 0, noise = 0;
};

}  // namespace

void Quality::add(const BlockGrid& grid, std::span<const float> values, std::span<const std::uint8_t> codes,
                  std::span<const float> scales) {
    const std::array<float, 256>& decoded = e4m3_values();
    for (std::int64_t top = 0, m = 0; top < grid.rows; top += grid.block_rows, ++m) {
        for (std::int64_t left = 0, k = 0; left < grid.columns; left += grid.block_columns, ++k) {
            const double scale = scales[static_cast<std::size_t>(m * grid.scale_columns() + k)];
            BlockSums block;
            for (std::int64_t r = top; r < std::min(grid.rows, top + grid.block_rows); ++r) {
                for (std::int64_t c = left; c < std::min(grid.columns, left + grid.block_columns); ++c) {
                    const auto at = static_cast<std::size_t>(r * grid.columns + c);
                    const double x = values[at];
                    const double error = std::abs(x - decoded[codes[at]] * scale);
                    block.amax = std::max(block.amax, std::abs(x));
                    block.largest = std::max(block.largest, error);
                    block.errors += error;
                    block.signal += x * x;
                    block.noise += error * error;
                }
            }
            signal_ += block.signal;
            noise_ += block.noise;
            if (block.amax == 0) continue;
            max_error_ = std::max(max_error_, block.largest / block.amax);
            error_sum_ += block.errors / block.amax;
        }
    }
    count_ += grid.rows * grid.columns;
}

double Quality::signal_to_noise() const {
    if (noise_ == 0) return std::numeric_limits<double>::infinity();
    return 10.0 * std::log10(signal_ / noise_);
}

}  // namespace tessera::tool

#include "tests/support/reference/lossless.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/support/reference/formats.hpp"

namespace tessera::reference {
namespace {

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The scales of the input, by block.
struct InputScales {
    const Quantized& q;
    std::int64_t rows, columns;
    const QuantizeRule& from;

    std::uint32_t bits(std::int64_t m, std::int64_t k) const {
        const std::uint32_t word = q.scales[scale_word(m, k, rows, columns, from)];
        return from.scales == Scales::packed_ue8m0 ? (word >> (8 * (k % 4)) & 0xFF) << 23 : word;
    }
    int exponent(std::int64_t m, std::int64_t k) const { return static_cast<int>(bits(m, k) >> 23 & 0xFF); }
    bool is_power(std::int64_t m, std::int64_t k) const {
        return (bits(m, k) & 0x807FFFFF) == 0 && exponent(m, k) != 255;
    }
};

/// Exponent of a new block's scale.
int exponent_of(const InputScales& in, std::int64_t m, std::int64_t k, const QuantizeRule& to) {
    const std::int64_t down = to.block_rows / in.from.block_rows, across = to.block_columns / in.from.block_columns;
    const std::int64_t m_end = std::min((m + 1) * down, up(in.rows, in.from.block_rows));
    const std::int64_t k_end = std::min((k + 1) * across, up(in.columns, in.from.block_columns));
    int largest = 0;
    for (std::int64_t i = m * down; i < m_end; ++i)
        for (std::int64_t j = k * across; j < k_end; ++j) largest = std::max(largest, in.exponent(i, j));
    return std::max(largest - 6, 0);
}

bool has_values(const std::vector<std::uint16_t>& codes, const InputScales& in, std::int64_t m, std::int64_t k) {
    const std::int64_t a = in.from.block_rows, b = in.from.block_columns;
    for (std::int64_t t = m * a; t < std::min((m + 1) * a, in.rows); ++t)
        for (std::int64_t h = k * b; h < std::min((k + 1) * b, in.columns); ++h)
            if ((codes[t * in.columns + h] & 7) != 0) return true;
    return false;
}

void keep_first(std::optional<Breach>& first, LosslessRule rule, std::int64_t m, std::int64_t k) {
    if (!first || rule < first->rule) first = Breach{rule, m, k};
}

}  // namespace

Lossless coarsen(const Quantized& q, std::int64_t rows, std::int64_t columns, const QuantizeRule& from,
                 const QuantizeRule& to) {
    const InputScales in{q, rows, columns, from};
    const std::vector<std::uint16_t> codes = unpacked(Format::e2m1, q.codes);
    const std::int64_t out_columns = up(columns, to.block_columns);
    Lossless result;
    result.out.scales.assign(scale_words(rows, columns, to), 0);
    std::vector<int> exponents;
    for (std::int64_t m = 0; m < up(rows, to.block_rows); ++m)
        for (std::int64_t k = 0; k < out_columns; ++k) {
            const int e = exponent_of(in, m, k, to);
            exponents.push_back(e);
            const int shift = to.scales == Scales::packed_ue8m0 ? static_cast<int>(8 * (k % 4)) : 23;
            result.out.scales[scale_word(m, k, rows, columns, to)] |= static_cast<std::uint32_t>(e) << shift;
        }
    const auto new_exponent = [&](std::int64_t t, std::int64_t h) {
        return exponents[t / to.block_rows * out_columns + h / to.block_columns];
    };
    for (std::int64_t m = 0; m < up(rows, from.block_rows); ++m)
        for (std::int64_t k = 0; k < up(columns, from.block_columns); ++k) {
            const int old = in.exponent(m, k), now = new_exponent(m * from.block_rows, k * from.block_columns);
            const bool used = has_values(codes, in, m, k);
            if (!in.is_power(m, k) || (old == 0 && used)) keep_first(result.breach, LosslessRule::power_of_two, m, k);
            if (old + 5 < now && used) keep_first(result.breach, LosslessRule::close_to_the_largest, m, k);
            if (now == 0 && used) keep_first(result.breach, LosslessRule::largest_can_be_stored, m, k);
        }
    if (result.breach) return result;
    for (std::int64_t t = 0; t < rows; ++t)
        for (std::int64_t h = 0; h < columns; ++h) {
            const int d = in.exponent(t / from.block_rows, h / from.block_columns) - new_exponent(t, h);
            const double value = std::ldexp(value_of(Format::e2m1, codes[t * columns + h]), d);
            const std::uint8_t code = e4m3_nearest(static_cast<float>(value));
            if (e4m3_value(code) != value) throw std::logic_error("a lossless cast loses something");
            result.out.codes.push_back(code);
        }
    return result;
}

}  // namespace tessera::reference

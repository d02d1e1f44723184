#include "tests/support/reference/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/support/reference/formats.hpp"

namespace tessera::reference {
namespace {

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::uint32_t bits_of(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

struct Factors {
    float scale;    // what the reader multiplies by
    float inverse;  // what the writer multiplies by
    int exponent;   // biased, of a rounded scale
};

Factors factors_of(float amax, bool round) {
    const float clamped = std::max(amax, 1e-4f);
    const float s = clamped / 448.0f;
    if (!round) return {s, 448.0f / clamped, 0};
    if (std::isinf(s)) return {s, 0.0f, 255};
    int exponent;
    const float fraction = std::frexp(s, &exponent);  // s = fraction · 2^exponent, fraction in [0.5, 1)
    if (fraction == 0.5f) --exponent;                 // a power of two stays itself
    return {std::ldexp(1.0f, exponent), std::ldexp(1.0f, -exponent), exponent + 127};
}

struct Area {
    std::int64_t row, row_end, column, column_end;
};

float largest(const Matrix& x, const Area& a) {
    float amax = 0;
    for (std::int64_t t = a.row; t < a.row_end; ++t)
        for (std::int64_t h = a.column; h < a.column_end; ++h) {
            const float v = std::fabs(x.at(t, h));
            if (v > amax) amax = v;  // false for NaN
        }
    return amax;
}

}  // namespace

float Matrix::at(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * pitch + column;
    return bf16 ? bf16_value(static_cast<const std::uint16_t*>(data)[i]) : static_cast<const float*>(data)[i];
}

std::int64_t scale_words(std::int64_t rows, std::int64_t columns, const QuantizeRule& rule) {
    const std::int64_t m = up(rows, rule.block_rows), k = up(columns, rule.block_columns);
    switch (rule.scales) {
        case Scales::row_major: return m * k;
        case Scales::column_major: return up(m, 4) * 4 * k;
        default: return up(m, 4) * 4 * up(k, 4);
    }
}

std::int64_t scale_word(std::int64_t m, std::int64_t k, std::int64_t rows, std::int64_t columns,
                        const QuantizeRule& rule) {
    const std::int64_t run = up(up(rows, rule.block_rows), 4) * 4;
    switch (rule.scales) {
        case Scales::row_major: return m * up(columns, rule.block_columns) + k;
        case Scales::column_major: return k * run + m;
        default: return k / 4 * run + m;
    }
}

Quantized quantize_e4m3(const Matrix& x, const QuantizeRule& rule) {
    Quantized q;
    q.codes.resize(x.rows * x.columns);
    q.scales.assign(scale_words(x.rows, x.columns, rule), 0);
    for (std::int64_t m = 0; m * rule.block_rows < x.rows; ++m)
        for (std::int64_t k = 0; k * rule.block_columns < x.columns; ++k) {
            const std::int64_t row = m * rule.block_rows, column = k * rule.block_columns;
            const Area area{row, std::min(row + rule.block_rows, x.rows), column,
                            std::min(column + rule.block_columns, x.columns)};
            const Factors f = factors_of(largest(x, area), rule.round);
            std::uint32_t& word = q.scales[scale_word(m, k, x.rows, x.columns, rule)];
            if (rule.scales == Scales::packed_ue8m0)
                word |= static_cast<std::uint32_t>(f.exponent) << (8 * (k % 4));
            else
                word = bits_of(f.scale);
            for (std::int64_t t = area.row; t < area.row_end; ++t)
                for (std::int64_t h = area.column; h < area.column_end; ++h)
                    q.codes[t * x.columns + h] = e4m3_nearest(x.at(t, h) * f.inverse);
        }
    return q;
}

std::vector<double> dequantize(const Quantized& q, std::int64_t rows, std::int64_t columns, const QuantizeRule& rule) {
    std::vector<double> values(rows * columns);
    for (std::int64_t t = 0; t < rows; ++t)
        for (std::int64_t h = 0; h < columns; ++h) {
            const std::int64_t k = h / rule.block_columns;
            const std::uint32_t word = q.scales[scale_word(t / rule.block_rows, k, rows, columns, rule)];
            double scale;
            if (rule.scales == Scales::packed_ue8m0) {
                scale = std::ldexp(1.0, static_cast<int>((word >> (8 * (k % 4))) & 0xFF) - 127);
            } else {
                float f;
                std::memcpy(&f, &word, sizeof f);
                scale = f;
            }
            values[t * columns + h] = e4m3_value(q.codes[t * columns + h]) * scale;
        }
    return values;
}

}  // namespace tessera::reference

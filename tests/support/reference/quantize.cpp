#include "tests/support/reference/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

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

Factors factors_of(float amax, const QuantizeRule& rule) {
    const auto largest = static_cast<float>(largest_of(rule.format));
    const float least = rule.format == Format::e2m1 ? 6 * std::ldexp(1.0f, -126) : 1e-4f;
    const float clamped = std::max(amax, least);
    const float s = clamped / largest;
    if (!rule.round) return {s, largest / clamped, 0};
    if (std::isinf(s)) return {s, 0.0f, 255};
    int exponent;
    const float fraction = std::frexp(s, &exponent);  // s = fraction · 2^exponent, fraction in [0.5, 1)
    if (fraction == 0.5f) --exponent;                 // a power of two stays itself
    return {std::ldexp(1.0f, exponent), std::ldexp(1.0f, -exponent), exponent + 127};
}

struct Area {
    std::int64_t row, row_end, column, column_end;
};

Area area_of(std::int64_t m, std::int64_t k, std::int64_t rows, std::int64_t columns, const QuantizeRule& rule) {
    const std::int64_t row = m * rule.block_rows, column = k * rule.block_columns;
    return {row, std::min(row + rule.block_rows, rows), column, std::min(column + rule.block_columns, columns)};
}

/// Calls visit(row, column) for every value of the area.
template <class Visit>
void for_each(const Area& a, Visit&& visit) {
    for (std::int64_t t = a.row; t < a.row_end; ++t)
        for (std::int64_t h = a.column; h < a.column_end; ++h) visit(t, h);
}

/// magnitude(t, h): what enters the maximum. scaled(t, h, inverse): what is encoded.
Quantized quantized(std::int64_t rows, std::int64_t columns, const QuantizeRule& rule,
                    const std::function<float(std::int64_t, std::int64_t)>& magnitude,
                    const std::function<float(std::int64_t, std::int64_t, float)>& scaled) {
    Quantized q;
    std::vector<std::uint16_t> codes(rows * columns);
    q.scales.assign(scale_words(rows, columns, rule), 0);
    for (std::int64_t m = 0; m * rule.block_rows < rows; ++m)
        for (std::int64_t k = 0; k * rule.block_columns < columns; ++k) {
            const Area area = area_of(m, k, rows, columns, rule);
            float amax = 0;
            for_each(area, [&](std::int64_t t, std::int64_t h) {
                const float v = magnitude(t, h);
                if (v > amax) amax = v;  // false for NaN
            });
            const Factors f = factors_of(amax, rule);
            std::uint32_t& word = q.scales[scale_word(m, k, rows, columns, rule)];
            if (rule.scales == Scales::packed_ue8m0)
                word |= static_cast<std::uint32_t>(f.exponent) << (8 * (k % 4));
            else
                word = bits_of(f.scale);
            for_each(area, [&](std::int64_t t, std::int64_t h) {
                codes[t * columns + h] = static_cast<std::uint16_t>(code_of(rule.format, scaled(t, h, f.inverse)));
            });
        }
    q.codes = packed(rule.format, codes);
    return q;
}

/// Codes and scales of quantized input, decoded.
struct Decoded {
    std::vector<float> values, scales;  // one of each a value
};

Decoded decoded(const Quantized& q, std::int64_t rows, std::int64_t columns, const QuantizeRule& from) {
    Decoded d;
    const std::vector<std::uint16_t> codes = unpacked(from.format, q.codes);
    for (std::int64_t t = 0; t < rows; ++t)
        for (std::int64_t h = 0; h < columns; ++h) {
            d.values.push_back(static_cast<float>(value_of(from.format, codes[t * columns + h])));
            d.scales.push_back(scale_of(q, t / from.block_rows, h / from.block_columns, rows, columns, from));
        }
    return d;
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

float scale_of(const Quantized& q, std::int64_t m, std::int64_t k, std::int64_t rows, std::int64_t columns,
               const QuantizeRule& rule) {
    const std::uint32_t word = q.scales[scale_word(m, k, rows, columns, rule)];
    if (rule.scales == Scales::packed_ue8m0) {
        const int byte = static_cast<int>(word >> (8 * (k % 4)) & 0xFF);
        return byte == 0 ? 0.0f : std::ldexp(1.0f, byte - 127);  // 2^128 is infinite
    }
    float f;
    std::memcpy(&f, &word, sizeof f);
    return f;
}

Quantized quantize(const Matrix& x, const QuantizeRule& rule) {
    return quantized(
        x.rows, x.columns, rule, [&](std::int64_t t, std::int64_t h) { return std::fabs(x.at(t, h)); },
        [&](std::int64_t t, std::int64_t h, float inverse) { return x.at(t, h) * inverse; });
}

Quantized requantize(const Quantized& q, std::int64_t rows, std::int64_t columns, const QuantizeRule& from,
                     const QuantizeRule& rule) {
    const Decoded d = decoded(q, rows, columns, from);
    return quantized(
        rows, columns, rule,
        [&](std::int64_t t, std::int64_t h) {
            const std::int64_t i = t * columns + h;
            return std::fabs(d.values[i]) * d.scales[i];
        },
        [&](std::int64_t t, std::int64_t h, float inverse) {
            const std::int64_t i = t * columns + h;
            const float factor = d.scales[i] * inverse;
            return d.values[i] * factor;
        });
}

std::vector<std::uint8_t> quantize_with(const Matrix& x, const std::vector<float>& sf, const QuantizeRule& rule) {
    std::vector<std::uint16_t> codes;
    for (std::int64_t t = 0; t < x.rows; ++t)
        for (std::int64_t h = 0; h < x.columns; ++h) {
            const float inverse =
                1.0f / sf[t / rule.block_rows * up(x.columns, rule.block_columns) + h / rule.block_columns];
            codes.push_back(static_cast<std::uint16_t>(code_of(rule.format, x.at(t, h) * inverse)));
        }
    return packed(rule.format, codes);
}

std::vector<float> cast_back(const Quantized& q, std::int64_t rows, std::int64_t columns, const QuantizeRule& from) {
    const Decoded d = decoded(q, rows, columns, from);
    std::vector<float> values;
    for (std::size_t i = 0; i < d.values.size(); ++i) values.push_back(d.values[i] * d.scales[i]);
    return values;
}

}  // namespace tessera::reference

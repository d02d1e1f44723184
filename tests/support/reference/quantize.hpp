#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/reference/narrow.hpp"

namespace tessera::reference {

enum class Scales { row_major, column_major, packed_ue8m0 };

/// A row-strided matrix; `pitch` counts elements. Elements are BF16 or FP32.
struct Matrix {
    const void* data;
    bool bf16;
    std::int64_t rows, columns, pitch;

    float at(std::int64_t row, std::int64_t column) const;
};

struct QuantizeRule {
    std::int64_t block_rows, block_columns;
    Scales scales;
    bool round;
    Format format = Format::e4m3;
};

/// The whole memory of both results.
struct Quantized {
    std::vector<std::uint8_t> codes;    // rows · columns, dense, packed if narrower than a byte
    std::vector<std::uint32_t> scales;  // FP32 bits, or four UE8M0 bytes a word; padding is 0
};

/// Words that the scales take, padding included.
std::int64_t scale_words(std::int64_t rows, std::int64_t columns, const QuantizeRule& rule);

/// Word of `Quantized::scales` that holds the scale of block (m, k).
std::int64_t scale_word(std::int64_t m, std::int64_t k, std::int64_t rows, std::int64_t columns,
                        const QuantizeRule& rule);

/// The scale of block (m, k) as the FP32 number that readers multiply by. A byte of 0 reads as 0, 255 as infinity.
float scale_of(const Quantized& q, std::int64_t m, std::int64_t k, std::int64_t rows, std::int64_t columns,
               const QuantizeRule& rule);

/// Codes and the factor of every block, by the book: one block after another, one value after another.
Quantized quantize(const Matrix& x, const QuantizeRule& rule);

/// The same for quantized input, laid out by `from`: y = code · (scale · inverse).
Quantized requantize(const Quantized& q, std::int64_t rows, std::int64_t columns, const QuantizeRule& from,
                     const QuantizeRule& rule);

/// Codes of x · (1 / sf) with sf of FP32 rows.
std::vector<std::uint8_t> quantize_with(const Matrix& x, const std::vector<float>& sf, const QuantizeRule& rule);

/// code · scale, rounded to FP32.
std::vector<float> cast_back(const Quantized& q, std::int64_t rows, std::int64_t columns, const QuantizeRule& from);

}  // namespace tessera::reference

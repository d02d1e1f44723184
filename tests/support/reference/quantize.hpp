#pragma once

#include <cstdint>
#include <vector>

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
};

/// The whole memory of both results.
struct Quantized {
    std::vector<std::uint8_t> codes;    // rows · columns, dense
    std::vector<std::uint32_t> scales;  // FP32 bits, or four UE8M0 bytes a word; padding is 0
};

/// Words that the scales take, padding included.
std::int64_t scale_words(std::int64_t rows, std::int64_t columns, const QuantizeRule& rule);

/// Word of `Quantized::scales` that holds the scale of block (m, k).
std::int64_t scale_word(std::int64_t m, std::int64_t k, std::int64_t rows, std::int64_t columns,
                        const QuantizeRule& rule);

/// E4M3 codes and the factor of every block, by the book: one block after another, one value after another.
Quantized quantize_e4m3(const Matrix& x, const QuantizeRule& rule);

/// x(t, h) ≈ code · factor, decoded in double.
std::vector<double> dequantize(const Quantized& q, std::int64_t rows, std::int64_t columns, const QuantizeRule& rule);

}  // namespace tessera::reference

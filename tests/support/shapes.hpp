#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/element.hpp"
#include "tests/support/reference/quantize.hpp"

namespace tessera::test {

/// One random case of per_token_cast (block_rows = 1) or per_block_cast.
struct CastCase {
    std::int64_t tokens, hidden;
    std::int64_t pitch;  // elements from row to row of the input
    std::int64_t shift;  // elements that the input's base lies past a 256-byte boundary
    Element type;        // bf16 or f32
    std::int64_t block_rows, block_columns;
    reference::Scales scales;
    bool round;
    std::uint64_t seed;  // of the values
    reference::Format format = reference::Format::e4m3;
    std::int64_t scale_gap = 0;  // words between the runs of given scales in columns
    std::int64_t shift_out = 0;  // bytes that the codes' base lies past a 256-byte boundary

    reference::QuantizeRule rule() const { return {block_rows, block_columns, scales, round, format}; }
    std::string text() const;
};

/// Quantized input of one random case: dense codes, scales whose runs are `scale_gap` words apart, of powers of two or
/// any values (packed ones always powers).
struct QuantizedCase {
    std::int64_t tokens, hidden;
    std::int64_t shift;            // bytes that the codes' base lies past a 256-byte boundary
    reference::QuantizeRule from;  // `round`: its scales are powers of two
    std::int64_t scale_gap;
    std::uint64_t seed;

    std::string text() const;
};

/// One random case of per_token_cast of a quantized pair.
struct RequantizeCase {
    QuantizedCase in;
    reference::QuantizeRule rule;
    std::string text() const;
};

/// One random case of cast_back.
struct CastBackCase {
    QuantizedCase in;
    Element out;         // bf16 or f32
    std::int64_t shift;  // elements that the output's base lies past a 256-byte boundary
    std::string text() const;
};

/// One random case of batched_transpose.
struct TransposeCase {
    std::int64_t batch, rows, columns;
    std::int64_t pitch;
    std::int64_t shift;
    Element type;
    std::uint64_t seed;

    std::string text() const;
};

/// Deterministic lists: the neighbours of every tile and vector edge first, then log-uniform shapes.
std::vector<CastCase> token_cast_cases(int count);
std::vector<CastCase> block_cast_cases(int count);
/// The same for E2M1 and (whole rows only) E5M6, column strides of given scales and misaligned codes.
std::vector<CastCase> packed_token_cast_cases(int count);
std::vector<CastCase> packed_block_cast_cases(int count);
/// E4M3 and E2M1 by tokens, with scales that are given.
std::vector<CastCase> precomputed_cases(int count);
/// The same by blocks.
std::vector<CastCase> precomputed_block_cases(int count);
std::vector<RequantizeCase> requantize_cases(int count);
std::vector<CastBackCase> cast_back_cases(int count);
std::vector<TransposeCase> transpose_cases(int count);

/// Every n-th case so that about `count` remain.
template <class Case>
std::vector<Case> thinned(const std::vector<Case>& all, std::size_t count) {
    std::vector<Case> some;
    for (std::size_t i = 0; i < count && i < all.size(); ++i) some.push_back(all[i * all.size() / count]);
    return some;
}

}  // namespace tessera::test

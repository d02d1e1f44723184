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

    reference::QuantizeRule rule() const { return {block_rows, block_columns, scales, round}; }
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
std::vector<TransposeCase> transpose_cases(int count);

/// Every n-th case so that about `count` remain.
template <class Case>
std::vector<Case> thinned(const std::vector<Case>& all, std::size_t count) {
    std::vector<Case> some;
    for (std::size_t i = 0; i < count && i < all.size(); ++i) some.push_back(all[i * all.size() / count]);
    return some;
}

}  // namespace tessera::test

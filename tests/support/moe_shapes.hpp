#pragma once

#include <string>
#include <vector>

#include "dsl/base/element.hpp"
#include "tests/support/random.hpp"
#include "tests/support/reference/moe.hpp"

namespace tessera::test {

struct MoeShape {
    std::int64_t tokens, topk, positions, hidden;
    std::int64_t pitch;  // elements from row to row of x
    std::int64_t shift;  // elements that x lies past a 256-byte boundary
    Element type;
    bool strays;  // some slots name rows far outside of the buffer
    std::uint64_t seed;

    std::string text() const;
    /// Each row of the buffer is named at most once; among those left some are padding, some nothing.
    reference::Mapping mapping() const;
    /// What is reported of the first slot that names a row past the end; "" if there is none.
    std::string stray() const;
};

struct ExpandCase : MoeShape {
    enum class Scales { none, rows, columns } scales;
    bool packed;
    std::int64_t num_per_channels;
    std::int64_t gap;  // words that columns of output scales lie further apart than they must
};
struct ReduceCase : MoeShape {
    bool weights, x_sf, to_e4m3, sf;
};

/// Deterministic lists, 0 tokens and 0 positions, sizes around vectors and tiles included.
std::vector<ExpandCase> expand_cases(int count);
std::vector<ReduceCase> reduce_cases(int count);

}  // namespace tessera::test

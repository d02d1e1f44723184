#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::test {

/// One random case of a hyper-connection kernel; each uses what it needs.
struct MhcCase {
    std::int64_t tokens, streams, hidden;
    std::int64_t repeat;
    float eps;
    double size;         // of logits
    std::int64_t shift;  // elements that tensors begin past a 256-byte boundary
    std::int64_t gap;    // elements between rows of logits
    bool two_axes;       // tokens are spread over two leading axes
    bool accumulate;
    std::uint64_t seed;

    std::string text() const;
};

/// Deterministic lists: token counts 1, 3, 5, 33, 127, 129 and edges first, then log-uniform ones.
std::vector<MhcCase> mhc_cases(int count);

}  // namespace tessera::test

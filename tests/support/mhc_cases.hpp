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

/// One of the kernels that make the logits of the mixes; shift is of the small tensors alone.
struct MhcNormCase {
    MhcCase common;        // eps: of the norm
    std::int64_t columns;  // J
    std::int64_t splits;   // 0: chosen by the kernel

    std::int64_t inner() const { return common.streams * common.hidden; }
    std::string text() const;
};
std::vector<MhcNormCase> mhc_norm_cases(int count);

}  // namespace tessera::test

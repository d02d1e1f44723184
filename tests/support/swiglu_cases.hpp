#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/element.hpp"
#include "tests/support/reference/quantize.hpp"

namespace tessera::test {

/// One random case of swiglu::forward_and_per_token_cast.
struct SwigluForwardCase {
    std::int64_t rows, half;
    std::int64_t pitch;  // elements from row to row of x
    std::int64_t shift;  // elements that x begins past a 256-byte boundary
    Element type;
    std::int64_t group;
    reference::Scales scales;
    bool round;
    std::optional<float> clamp, least_amax;
    bool weights, experts, count;
    std::uint64_t seed;

    std::string text() const;
};

/// One random case of swiglu::backward_and_per_token_cast.
struct SwigluBackwardCase {
    std::int64_t rows, half, group;
    std::int64_t tokens, top_k;  // extents of the weights
    std::int64_t shift;          // elements that x and grad_out begin past a 256-byte boundary
    bool round;
    std::optional<float> clamp;
    std::uint64_t seed;

    std::string text() const;
};

/// Deterministic lists: edges first, then log-uniform shapes.
std::vector<SwigluForwardCase> swiglu_forward_cases(int count);
std::vector<SwigluBackwardCase> swiglu_backward_cases(int count);

}  // namespace tessera::test

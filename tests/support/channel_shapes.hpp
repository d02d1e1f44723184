#pragma once

#include <string>
#include <vector>

#include "dsl/base/element.hpp"
#include "tests/support/reference/quantize.hpp"

namespace tessera::test {

/// One random case of per_channel_cast and its relatives.
struct ChannelCase {
    std::int64_t tokens, hidden;
    std::int64_t pitch, shift;     // of x, in elements
    Element type;                  // of x; e4m3: a pair
    reference::QuantizeRule from;  // of a pair
    std::int64_t gap;              // words that runs of a pair's scales lie further apart than they must
    std::int64_t num_per_tokens;
    bool round;
    std::int64_t rows;  // of pos_to_token; −1: none
    std::uint64_t seed;

    std::string text() const;
    std::vector<std::int32_t> pos_to_token() const;  // −1, other negatives and repeats included
};

/// Deterministic lists: sizes around strips and vectors first, 0 tokens included.
std::vector<ChannelCase> channel_cases(int count);  // plain, in order
std::vector<ChannelCase> gathered_cases(int count);
std::vector<ChannelCase> pair_cases(int count);  // with and without pos_to_token

}  // namespace tessera::test

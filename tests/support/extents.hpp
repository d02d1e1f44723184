#pragma once

#include <vector>

#include "tests/support/random.hpp"
#include "tests/support/reference/quantize.hpp"

namespace tessera::test {

/// 0, ±1 around each of these, from 1 to the largest.
std::vector<std::int64_t> neighbours(std::initializer_list<std::int64_t> edges, std::int64_t largest);

constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/// Case `index` of a list: its two extents, columns a multiple of `pack`. The first walk the edges of tiles and
/// vectors, the rest are random; both are kept small together.
void choose_extents(Random& random, int index, std::int64_t pack, std::int64_t& tokens, std::int64_t& hidden);

/// Elements from row to row of a matrix with so many columns.
std::int64_t random_pitch(Random& random, std::int64_t columns);
/// Mostly 0, else up to 9.
std::int64_t random_shift(Random& random);
reference::Scales random_scale_layout(Random& random);

/// "e2m1 block 1x32 scales packed rounded".
std::string text_of(const reference::QuantizeRule& rule);

}  // namespace tessera::test

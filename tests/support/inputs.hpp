#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dsl/base/element.hpp"

namespace tessera::test {

/// `count` finite values of type bf16 or f32 as bytes, in runs of hard ones: plain normals, zeros of both signs, tiny
/// (1e-30), subnormal and huge magnitudes, exact powers of two, E4M3 midpoints below a maximum of 448·2ⁿ, lone spikes.
std::vector<std::uint8_t> hard_values(Element type, std::int64_t count, std::uint64_t seed);

/// Random bytes.
std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint64_t seed);

}  // namespace tessera::test

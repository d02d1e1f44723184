#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dsl/base/element.hpp"
#include "tests/support/reference/narrow.hpp"

namespace tessera::test {

/// `count` finite values of type bf16 or f32 as bytes, in runs of hard ones: plain normals, zeros of both signs, tiny
/// (1e-30), subnormal and huge magnitudes, exact powers of two, lone spikes, and midpoints of neighbouring codes of the
/// format, times 2ⁿ, below a maximum of its largest value times 2ⁿ.
std::vector<std::uint8_t> hard_values(Element type, std::int64_t count, std::uint64_t seed,
                                      reference::Format format = reference::Format::e4m3);

/// Codes of a format as bytes, `count` values: runs of any codes (NaN too), of finite ones, of small ones and of zeros.
std::vector<std::uint8_t> random_codes(reference::Format format, std::int64_t count, std::uint64_t seed);

/// Positive scales, in runs around one magnitude; powers of two or any.
std::vector<float> random_scales(std::int64_t count, bool powers, std::uint64_t seed);

/// Random bytes.
std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint64_t seed);

}  // namespace tessera::test

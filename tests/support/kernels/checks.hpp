#pragma once

#include <string>

#include "runtime/device.hpp"
#include "tests/support/shapes.hpp"

namespace tessera::test {

// Each runs one case on the device through the public entry points, with given outputs (filled with a sentinel, between
// guard bands) and with returned ones, and compares every byte with the reference. "" if all is well, else what
// differs.

std::string check_per_token_cast(const Device& device, const CastCase& c);
std::string check_per_block_cast(const Device& device, const CastCase& c);
/// The next two: by tokens where block_rows = 1, else by blocks.
std::string check_sf_only(const Device& device, const CastCase& c);
/// Scales of the case are ignored; FP32 rows of random ones are given.
std::string check_precomputed_sf(const Device& device, const CastCase& c);
std::string check_requantize(const Device& device, const RequantizeCase& c);
/// Where the reference gives NaN, any NaN is right.
std::string check_cast_back(const Device& device, const CastBackCase& c);
std::string check_batched_transpose(const Device& device, const TransposeCase& c);

}  // namespace tessera::test

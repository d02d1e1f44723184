#pragma once

#include <string>

#include "runtime/device.hpp"
#include "tests/support/reference/quantize.hpp"

namespace tessera::test {

// Whole domains through the public casts of a device. "" if all is well, else what differs.

/// Every code of the format, at every place of a pack, through cast_back to FP32 and BF16 under a scale of 1.
std::string check_every_code(const Device& device, reference::Format format);

/// E2M1 codes in both nibbles under the scale bytes 0, 1, 127, 254 and 255 (C7).
std::string check_scale_bytes(const Device& device);

/// Every midpoint of neighbouring codes and the FP32 numbers next to it, and every code's value, both signs, through
/// per_token_cast with a scale of 1: against arithmetic for E4M3 and E2M1 and, from 2⁻¹⁴ or with `round_subnormals`,
/// E5M6; below that against the reference.
std::string check_midpoints(const Device& device, reference::Format format, bool round_subnormals = false);

/// Every BF16 number up to the format's largest through per_token_cast with a scale of 1, FP32 and power-of-two paths.
std::string check_every_bf16(const Device& device, reference::Format format);

/// Blocks whose maximum is a power of two, the format's largest value times one, or next to one of these, for all
/// exponents; every scale layout.
std::string check_every_exponent(const Device& device, reference::Format format);

}  // namespace tessera::test

#pragma once

#include <cstdint>

// Number formats for the reference, decoded from their definition and encoded by search. Deliberately shares nothing
// with the library's own conversions.

namespace tessera::reference {

/// Value of an E4M3 code (bias 7, no infinities); NaN for 0x7F and 0xFF.
double e4m3_value(std::uint8_t code);

/// The E4M3 code nearest to x, ties to the even code, magnitudes above 448 saturated, the sign of zero kept, NaN 0x7F.
std::uint8_t e4m3_nearest(float x);

/// Value of BF16 bits.
float bf16_value(std::uint16_t bits);

/// BF16 bits nearest to a finite x, ties to even.
std::uint16_t bf16_nearest(float x);

}  // namespace tessera::reference

#pragma once

#include <cstdint>
#include <vector>

// The narrow formats under one roof, and how codes of less than a byte share bytes.

namespace tessera::reference {

enum class Format { e4m3, e2m1, e5m6 };

int bits_of(Format format);
/// Values that share bytes: 1, 2 or 8.
int pack_of(Format format);
/// Largest finite magnitude: 448, 6 or 65024.
double largest_of(Format format);
/// Codes of non-negative finite values run from 0 to this one: 0x7E, 7 or 0x7BF.
unsigned largest_code_of(Format format);

/// What a code means; NaN and infinity where the format has them.
double value_of(Format format, unsigned code);

/// The code that a cast gives. E4M3 and E2M1: nearest, ties to even, saturating, sign of zero kept; NaN is 0x7F or +6.
/// E5M6: the top 12 bits of the half that x is truncated to, plus one unit if the 17 low bits of x and the code's own
/// lowest bit carry; NaN is 0x800.
unsigned code_of(Format format, float x);

/// Codes of whole rows as they lie in memory. E2M1: even columns in the low nibble. E5M6: eight codes in three words,
/// each word filled from its top.
std::vector<std::uint8_t> packed(Format format, const std::vector<std::uint16_t>& codes);
std::vector<std::uint16_t> unpacked(Format format, const std::vector<std::uint8_t>& bytes);

}  // namespace tessera::reference

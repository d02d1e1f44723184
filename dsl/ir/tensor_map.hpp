#pragma once

#include <cstdint>

namespace tessera::ir {

/// Longest extent of a tensor that a tensor map describes, in elements. Coordinates are counted in 32 bits with a sign,
/// those of a box that begins here included; a multiple of every row.
inline constexpr std::int64_t most_mapped_extent = 0x7FFFFF00;

}  // namespace tessera::ir

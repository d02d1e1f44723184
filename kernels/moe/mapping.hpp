#pragma once

#include <cstdint>

namespace tessera::moe {

/// Chunks of slots, at most, of the four launches: what one block of scan_chunks sums up.
inline constexpr std::int64_t most_chunks = 1024;

}  // namespace tessera::moe

#pragma once

#include <cstdint>
#include <vector>

namespace tessera::reference {

/// out[b, n, m] = x[b, m, n] for elements of `bytes` bytes; pitch and batch_pitch count elements. The result is dense.
std::vector<std::uint8_t> batched_transpose(const void* x, int bytes, std::int64_t batch, std::int64_t rows,
                                            std::int64_t columns, std::int64_t pitch, std::int64_t batch_pitch);

}  // namespace tessera::reference

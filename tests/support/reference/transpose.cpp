#include "tests/support/reference/transpose.hpp"

#include <cstring>

namespace tessera::reference {

std::vector<std::uint8_t> batched_transpose(const void* x, int bytes, std::int64_t batch, std::int64_t rows,
                                            std::int64_t columns, std::int64_t pitch, std::int64_t batch_pitch) {
    std::vector<std::uint8_t> out(batch * rows * columns * bytes);
    const auto* in = static_cast<const std::uint8_t*>(x);
    for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t n = 0; n < columns; ++n)
            for (std::int64_t m = 0; m < rows; ++m)
                std::memcpy(&out[((b * columns + n) * rows + m) * bytes],
                            in + (b * batch_pitch + m * pitch + n) * bytes, bytes);
    return out;
}

}  // namespace tessera::reference

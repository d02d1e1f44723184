#include "tests/support/kernels/large_transpose.hpp"

#include <tessera/transpose.hpp>
#include <vector>

namespace tessera::test {
namespace {

/// Differs between neighbours on every side, and from batch to batch.
std::uint8_t value_at(std::int64_t b, std::int64_t m, std::int64_t n) {
    const std::int64_t mixed = b * 89 + m * 7 + (m >> 8) * 13 + (m >> 16) * 5 + n * 31;
    return static_cast<std::uint8_t>(mixed ^ (mixed >> 9));
}

}  // namespace

bool transposes_large(const Device& device, const Shape& extents) {
    const std::int64_t batch = extents[0], rows = extents[1], columns = extents[2];
    std::vector<std::uint8_t> x(static_cast<std::size_t>(extents.count()));
    std::uint8_t* to = x.data();
    for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t m = 0; m < rows; ++m)
            for (std::int64_t n = 0; n < columns; ++n) *to++ = value_at(b, m, n);
    const Stream stream = device.stream();
    const Tensor in = Tensor::from_host(stream, u8, extents, x.data());
    const Tensor out = transpose::batched_transpose(stream, in).to_host(stream);
    if (!(out.extents() == Shape{batch, columns, rows})) return false;
    const auto* from = out.as<const std::uint8_t>();
    for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t n = 0; n < columns; ++n)
            for (std::int64_t m = 0; m < rows; ++m)
                if (*from++ != value_at(b, m, n)) return false;
    return true;
}

}  // namespace tessera::test

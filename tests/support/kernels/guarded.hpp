#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tensor.hpp"

namespace tessera::test {

inline constexpr std::uint8_t sentinel = 0xA5;

/// Memory of a device that begins `shift` bytes past a multiple of 256, between guard bands.
class Guarded {
public:
    Guarded(const Stream& stream, const std::vector<std::uint8_t>& contents, std::int64_t shift = 0);
    /// `bytes` bytes of the sentinel.
    Guarded(const Stream& stream, std::int64_t bytes, std::int64_t shift = 0);

    TensorView view(Element element, const Shape& extents, const Shape& strides) const;
    /// What lies there now. Throws std::runtime_error if a guard byte has changed.
    std::vector<std::uint8_t> read(const Stream& stream) const;

private:
    Tensor memory_;
    std::int64_t start_, bytes_;
};

}  // namespace tessera::test

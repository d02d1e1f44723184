#include "bench/inputs.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <vector>

namespace tessera::bench {

namespace {

constexpr std::int64_t piece = 1 << 20;

std::vector<std::uint32_t> words_of(Element element, std::int64_t bytes, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<std::uint32_t> words(static_cast<std::size_t>((bytes + 3) / 4));
    for (std::uint32_t& w : words) {
        if (element == f32)
            w = std::bit_cast<std::uint32_t>(normal(random));
        else if (element == bf16)
            w = (std::bit_cast<std::uint32_t>(normal(random)) & 0xFFFF0000u) |
                (std::bit_cast<std::uint32_t>(normal(random)) >> 16);
        else
            w = static_cast<std::uint32_t>(random());
    }
    return words;
}

}  // namespace

Tensor random_tensor(const Stream& stream, Element element, const Shape& extents, unsigned seed) {
    Tensor result = Tensor::empty(stream, element, extents);
    const std::int64_t bytes = result.bytes(), first = std::min(piece, bytes);
    if (first == 0) return result;
    const std::vector<std::uint32_t> words = words_of(element, first, seed);
    auto* const base = static_cast<std::uint8_t*>(result.data());
    const auto part = [&](const Device& device, void* at, std::int64_t n) {
        return TensorView::of(device, at, u8, {n});
    };
    // Doubling copies on the device itself: the host sends one piece.
    copy(stream, part(result.device(), base, first),
         part(Device::host(), const_cast<std::uint32_t*>(words.data()), first));
    for (std::int64_t done = first; done < bytes;) {
        const std::int64_t n = std::min(done, bytes - done);
        copy(stream, part(result.device(), base + done, n), part(result.device(), base, n));
        done += n;
    }
    return result;
}

}  // namespace tessera::bench

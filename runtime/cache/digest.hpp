#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera::runtime {

using Digest = std::array<std::uint8_t, 16>;

/// XXH3-128 of bytes that arrive in pieces, in its canonical (big-endian) order.
class Hasher {
public:
    Hasher();
    ~Hasher();
    Hasher(const Hasher&) = delete;
    Hasher& operator=(const Hasher&) = delete;

    void add(std::span<const std::byte> bytes);
    Digest finish() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

Digest xxh3_128(std::span<const std::byte> bytes);

/// Lower-case hexadecimal digits, two a byte.
std::string hex(std::span<const std::uint8_t> bytes);

}  // namespace tessera::runtime

#include "runtime/cache/digest.hpp"

#define XXH_INLINE_ALL
#include <bit>
#include <xxhash.h>

namespace tessera::runtime {

namespace {
Digest canonical(XXH128_hash_t hash) {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, hash);
    return std::bit_cast<Digest>(bytes);
}
}  // namespace

struct Hasher::State {
    XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }

Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) { XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()); }

Digest Hasher::finish() const { return canonical(XXH3_128bits_digest(&state_->xxh)); }

Digest xxh3_128(std::span<const std::byte> bytes) { return canonical(XXH3_128bits(bytes.data(), bytes.size())); }

std::string hex(std::span<const std::uint8_t> bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    text.reserve(2 * bytes.size());
    for (const std::uint8_t byte : bytes) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

}  // namespace tessera::runtime

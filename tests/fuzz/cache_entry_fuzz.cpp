// The reader of cache entries on any bytes: it takes what it can give back byte for byte, and nothing else. Each input
// is read as it is and again with its digest and checksum put right, for nothing behind them would be reached
// otherwise.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "runtime/cache/entry.hpp"

using namespace tessera::runtime;

namespace {

void must(bool holds) {
    if (!holds) std::abort();
}

void read(std::span<const std::byte> file) {
    const auto head = read_entry_head(file);
    const auto announced = announced_bytes(file);
    const auto entry = decode_entry(file);
    if (!entry) return;
    must(announced == file.size());
    must(head && head->format == cache_format && head->digest == entry->key.digest);
    must(head->key_text == entry->key.text && head->kernel == entry->compiled.kernel);
    must(is_publishable(entry->key, entry->compiled));
    const auto again = encode_entry(entry->key, entry->compiled);
    must(again.size() == file.size() && std::memcmp(again.data(), file.data(), file.size()) == 0);
    must(decode_entry(entry->key, file).has_value());
    CacheKey other = entry->key;
    other.text += "x";
    must(!decode_entry(other, file).has_value());
}

/// The digest of the key's text at byte 16, the checksum at the end.
std::vector<std::byte> put_right(std::span<const std::byte> file) {
    std::vector<std::byte> bytes(file.begin(), file.end());
    if (bytes.size() < entry_header_bytes + sizeof(Digest)) return bytes;
    std::uint32_t key_bytes = 0;
    std::memcpy(&key_bytes, bytes.data() + 12, sizeof key_bytes);
    const std::size_t body = bytes.size() - sizeof(Digest);
    if (key_bytes <= body - entry_header_bytes) {
        const Digest digest = xxh3_128(std::span(bytes).subspan(entry_header_bytes, key_bytes));
        std::memcpy(bytes.data() + 16, digest.data(), digest.size());
    }
    const Digest sum = xxh3_128(std::span(bytes).first(body));
    std::memcpy(bytes.data() + body, sum.data(), sum.size());
    return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto file = std::as_bytes(std::span(data, size));
    read(file);
    read(put_right(file));
    return 0;
}

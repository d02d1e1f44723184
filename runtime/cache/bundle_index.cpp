#include "runtime/cache/bundle_index.hpp"

#include <cstring>

#include "runtime/cache/cache_key.hpp"

namespace tessera::runtime {

namespace {

constexpr char magic[8] = {'T', 'E', 'S', 'B', 'U', 'N', 'D', 'L'};

struct RawHeader {
    char magic[8];
    std::uint32_t format;
    std::uint32_t entries;
    std::uint64_t index_offset;
};
static_assert(sizeof(RawHeader) == bundle_header_bytes && sizeof(BundleItem) == 32);

Digest checksum(std::span<const std::byte> header, std::span<const std::byte> items) {
    Hasher hasher;
    hasher.add(header);
    hasher.add(items);
    return hasher.finish();
}

}  // namespace

Digest bundle_name(std::string_view key_text) { return key_of_text(portable_text(key_text)).digest; }

std::vector<std::byte> encode_bundle_header(const BundleHeader& header) {
    RawHeader raw{};
    std::memcpy(raw.magic, magic, sizeof magic);
    raw.format = cache_format;
    raw.entries = header.entries;
    raw.index_offset = header.index_offset;
    const auto bytes = std::as_bytes(std::span(&raw, 1));
    return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encode_bundle_index(const BundleHeader& header, std::span<const BundleItem> items) {
    const auto raw = std::as_bytes(items);
    std::vector<std::byte> index(raw.begin(), raw.end());
    const Digest sum = checksum(encode_bundle_header(header), raw);
    const auto end = std::as_bytes(std::span(sum));
    index.insert(index.end(), end.begin(), end.end());
    return index;
}

std::optional<BundleHeader> decode_bundle_header(std::span<const std::byte> first_bytes, std::uint64_t file_bytes) {
    RawHeader raw;
    if (first_bytes.size() < sizeof raw) return std::nullopt;
    std::memcpy(&raw, first_bytes.data(), sizeof raw);
    if (std::memcmp(raw.magic, magic, sizeof magic) != 0 || raw.format != cache_format) return std::nullopt;
    const BundleHeader header{raw.entries, raw.index_offset};
    if (header.index_offset < bundle_header_bytes || header.index_offset > file_bytes) return std::nullopt;
    if (header.index_bytes() != file_bytes - header.index_offset) return std::nullopt;
    return header;
}

std::optional<std::vector<BundleItem>> decode_bundle_index(const BundleHeader& header,
                                                           std::span<const std::byte> index) {
    if (index.size() != header.index_bytes()) return std::nullopt;
    const auto raw = index.first(index.size() - sizeof(Digest));
    const Digest sum = checksum(encode_bundle_header(header), raw);
    if (std::memcmp(sum.data(), index.data() + raw.size(), sum.size()) != 0) return std::nullopt;
    std::vector<BundleItem> items(header.entries);
    if (!items.empty()) std::memcpy(items.data(), raw.data(), raw.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
        const BundleItem& item = items[i];
        if (item.offset < bundle_header_bytes || item.offset > header.index_offset ||
            item.bytes > header.index_offset - item.offset)
            return std::nullopt;
        if (i > 0 && !(items[i - 1].name < item.name)) return std::nullopt;
    }
    return items;
}

}  // namespace tessera::runtime

#include "runtime/cache/entry.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include "runtime/cubin.hpp"

namespace tessera::runtime {

namespace {

static_assert(std::endian::native == std::endian::little, "entries are little-endian");

constexpr char magic[8] = {'T', 'E', 'S', 'C', 'U', 'B', 'I', 'N'};

struct Header {
    char magic[8];
    std::uint32_t format;
    std::uint32_t key_bytes;
    Digest digest;
    std::uint32_t kernel_bytes;
    std::uint32_t log_bytes;
    std::uint64_t ptx_bytes;
    std::uint64_t cubin_bytes;

    /// Of the whole file; nullopt if a size is absurd.
    std::optional<std::uint64_t> file_bytes() const {
        if (ptx_bytes > most_entry_bytes || cubin_bytes > most_entry_bytes) return std::nullopt;
        const std::uint64_t all = entry_header_bytes + std::uint64_t{key_bytes} + kernel_bytes + log_bytes + ptx_bytes +
                                  cubin_bytes + sizeof(Digest);
        if (all > most_entry_bytes) return std::nullopt;
        return all;
    }
};
static_assert(sizeof(Header) == entry_header_bytes && std::is_trivially_copyable_v<Header>);

std::optional<Header> read_header(std::span<const std::byte> file) {
    Header header;
    if (file.size() < sizeof header) return std::nullopt;
    std::memcpy(&header, file.data(), sizeof header);
    if (std::memcmp(header.magic, magic, sizeof magic) != 0) return std::nullopt;
    return header;
}

Header header_of(const CacheKey& key, const CachedCubin& compiled) {
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.format = cache_format;
    header.key_bytes = static_cast<std::uint32_t>(key.text.size());
    header.digest = key.digest;
    header.kernel_bytes = static_cast<std::uint32_t>(compiled.kernel.size());
    header.log_bytes = static_cast<std::uint32_t>(compiled.log.size());
    header.ptx_bytes = compiled.ptx.size();
    header.cubin_bytes = compiled.cubin.size();
    return header;
}

/// Takes pieces from the front of the bytes after the header.
class Pieces {
public:
    explicit Pieces(std::span<const std::byte> rest) : rest_(rest) {}
    std::span<const std::byte> take(std::uint64_t bytes) {
        const auto piece = rest_.first(static_cast<std::size_t>(bytes));
        rest_ = rest_.subspan(piece.size());
        return piece;
    }
    std::string take_text(std::uint64_t bytes) {
        const auto piece = take(bytes);
        return {reinterpret_cast<const char*>(piece.data()), piece.size()};
    }
    std::size_t left() const { return rest_.size(); }

private:
    std::span<const std::byte> rest_;
};

/// The header of a file whose sizes and checksum are right.
std::optional<Header> sound_header(std::span<const std::byte> file) {
    const auto header = read_header(file);
    if (!header || header->format != cache_format || header->file_bytes() != file.size()) return std::nullopt;
    const auto covered = file.first(file.size() - sizeof(Digest));
    const Digest sum = xxh3_128(covered);
    if (std::memcmp(sum.data(), file.data() + covered.size(), sum.size()) != 0) return std::nullopt;
    if (!looks_like_elf(covered.last(static_cast<std::size_t>(header->cubin_bytes)))) return std::nullopt;
    return header;
}

}  // namespace

std::vector<std::byte> encode_entry(const CacheKey& key, const CachedCubin& compiled) {
    const Header header = header_of(key, compiled);
    std::vector<std::byte> file;
    file.reserve(static_cast<std::size_t>(header.file_bytes().value_or(0)));
    const auto append = [&file](const void* from, std::size_t bytes) {
        const auto* begin = static_cast<const std::byte*>(from);
        file.insert(file.end(), begin, begin + bytes);
    };
    append(&header, sizeof header);
    append(key.text.data(), key.text.size());
    append(compiled.kernel.data(), compiled.kernel.size());
    append(compiled.log.data(), compiled.log.size());
    append(compiled.ptx.data(), compiled.ptx.size());
    append(compiled.cubin.data(), compiled.cubin.size());
    const Digest sum = xxh3_128(file);
    append(sum.data(), sum.size());
    return file;
}

bool is_publishable(const CacheKey& key, const CachedCubin& compiled) {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    return key.text.size() <= most && compiled.kernel.size() <= most && compiled.log.size() <= most &&
           looks_like_elf(compiled.cubin) && header_of(key, compiled).file_bytes().has_value();
}

std::optional<KeptEntry> decode_entry(std::span<const std::byte> file) {
    const auto header = sound_header(file);
    if (!header) return std::nullopt;
    Pieces pieces(file.subspan(sizeof(Header)));
    KeptEntry entry;
    entry.key = key_of_text(pieces.take_text(header->key_bytes));
    if (entry.key.digest != header->digest) return std::nullopt;
    entry.compiled.kernel = pieces.take_text(header->kernel_bytes);
    entry.compiled.log = pieces.take_text(header->log_bytes);
    entry.compiled.ptx = pieces.take_text(header->ptx_bytes);
    const auto cubin = pieces.take(header->cubin_bytes);
    entry.compiled.cubin.assign(cubin.begin(), cubin.end());
    return entry;
}

std::optional<CachedCubin> decode_entry(const CacheKey& key, std::span<const std::byte> file) {
    auto entry = decode_entry(file);
    if (!entry || entry->key != key) return std::nullopt;
    return std::move(entry->compiled);
}

std::optional<std::uint64_t> announced_bytes(std::span<const std::byte> file) {
    const auto header = read_header(file);
    if (!header || header->format != cache_format) return std::nullopt;
    return header->file_bytes();
}

std::optional<EntryHead> read_entry_head(std::span<const std::byte> first_bytes) {
    const auto header = read_header(first_bytes);
    if (!header) return std::nullopt;
    EntryHead head;
    head.format = static_cast<int>(header->format);
    if (header->format != cache_format) return head;
    head.digest = header->digest;
    Pieces pieces(first_bytes.subspan(sizeof(Header)));
    if (header->key_bytes > pieces.left()) return head;
    head.key_text = pieces.take_text(header->key_bytes);
    if (header->kernel_bytes <= pieces.left()) head.kernel = pieces.take_text(header->kernel_bytes);
    return head;
}

}  // namespace tessera::runtime

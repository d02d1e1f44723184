#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cache/cache_key.hpp"

namespace tessera::runtime {

/// What one compilation leaves behind.
struct CachedCubin {
    std::string kernel;  // name of the entry point
    std::vector<std::byte> cubin;
    std::string ptx;
    std::string log;
};

/// What an entry keeps.
struct KeptEntry {
    CacheKey key;
    CachedCubin compiled;
};

// An entry is one file, little-endian:
//
//   offset  0  magic "TESCUBIN"
//           8  format number, u32
//          12  bytes of the key's text, u32
//          16  the key's digest, which is that of its text
//          32  bytes of the kernel's name, u32
//          36  bytes of the log, u32
//          40  bytes of the PTX, u64
//          48  bytes of the cubin, u64
//          56  key's text, kernel's name, log, PTX, cubin
//         end  XXH3-128 of everything before
//
// Every byte is under the checksum. The stamp of the last use is therefore not in the file: it is the file's time of
// modification, which the cache sets itself (folder.hpp).

inline constexpr std::size_t entry_header_bytes = 56;
inline constexpr std::uint64_t most_entry_bytes = 1u << 30;

/// The file that keeps a compilation. Precondition: `is_publishable`.
std::vector<std::byte> encode_entry(const CacheKey& key, const CachedCubin& compiled);

/// True if the cubin begins like one and every part fits into an entry.
bool is_publishable(const CacheKey& key, const CachedCubin& compiled);

/// A file's contents; nullopt unless it is whole and fits itself: magic, format, sizes, the digest of the key's text,
/// the checksum and the cubin's magic.
std::optional<KeptEntry> decode_entry(std::span<const std::byte> file);

/// The compilation in a file that is whole and of this very key, text and digest.
std::optional<CachedCubin> decode_entry(const CacheKey& key, std::span<const std::byte> file);

/// Bytes that a file with this header must have; nullopt unless magic, format and sizes make sense.
std::optional<std::uint64_t> announced_bytes(std::span<const std::byte> header);

/// What the first bytes of a file say, unchecked but for magic, format and sizes.
struct EntryHead {
    int format = 0;        // another than cache_format: the other members are unknown
    std::string key_text;  // empty if `file` ends before it
    std::string kernel;
    Digest digest{};
};

/// nullopt if the file does not bear our magic.
std::optional<EntryHead> read_entry_head(std::span<const std::byte> first_bytes);

}  // namespace tessera::runtime

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/cache/digest.hpp"

namespace tessera::runtime {

// A bundle file, little-endian:
//
//   offset  0  magic "TESBUNDL"
//           8  format number of its entries, u32
//          12  number of its entries, u32
//          16  offset of the index, u64
//          24  the entries, each as a file of the cache has it (entry.hpp), with a checksum of its own
//       index  for each entry, in ascending order of names: name, 16 bytes; offset, u64; bytes, u64
//         end  XXH3-128 of the 24 bytes at the start and the index
//
// The name of an entry is the digest of its key's portable text: the compiler is not in it.

/// The name of an entry with this key.
Digest bundle_name(std::string_view key_text);

inline constexpr std::size_t bundle_header_bytes = 24;

struct BundleItem {
    Digest name{};
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

struct BundleHeader {
    std::uint32_t entries = 0;
    std::uint64_t index_offset = 0;
    /// Of the index and the checksum behind it.
    std::uint64_t index_bytes() const { return std::uint64_t{entries} * 32 + sizeof(Digest); }
};

std::vector<std::byte> encode_bundle_header(const BundleHeader& header);

/// What ends the file. Precondition: sorted by name.
std::vector<std::byte> encode_bundle_index(const BundleHeader& header, std::span<const BundleItem> items);

/// nullopt unless magic and format are ours and the index ends where a file of `file_bytes` does.
std::optional<BundleHeader> decode_bundle_header(std::span<const std::byte> first_bytes, std::uint64_t file_bytes);

/// `index`: from the header's index offset to the end of the file. nullopt unless the checksum is right, names ascend
/// and entries lie between header and index.
std::optional<std::vector<BundleItem>> decode_bundle_index(const BundleHeader& header,
                                                           std::span<const std::byte> index);

}  // namespace tessera::runtime

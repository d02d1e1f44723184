#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/safetensors.hpp"

namespace tessera::safetensors {

inline constexpr std::uint64_t largest_header = 100'000'000;  // the format's own bound
inline constexpr const char* metadata_name = "__metadata__";

struct Header {
    std::vector<StoredTensor> tensors;  // in the order of their bytes
    StoredMetadata metadata;
};

/// Reads and checks the JSON header of a file whose tensors take `data_bytes` bytes after it.
/// Errors: UsageError that begins with `path`.
Header parse_header(const std::string& path, std::string_view text, std::uint64_t data_bytes);

/// The header as it stands in a file, without the 8 bytes of its length: padded with spaces so that what follows is
/// aligned to 8 bytes.
std::string header_text(const std::vector<StoredTensor>& tensors, const StoredMetadata& metadata);

/// Bytes that so many values of the type take. False: too many to count, or no whole number of bytes; `why` ends a
/// sentence about the tensor.
bool bytes_of(StoredType type, const std::vector<std::int64_t>& shape, std::uint64_t& bytes, std::string& why);

}  // namespace tessera::safetensors

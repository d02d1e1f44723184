#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tessera::runtime {

/// The GNU build-id in an ELF file's notes, as hexadecimal digits, read with a few small reads and without loading the
/// file. nullopt if the file cannot be read, is no 64-bit little-endian ELF file, or carries none.
std::optional<std::string> elf_build_id(const std::filesystem::path& file);

/// Names the contents of a library whatever its path or age: "build-id:…", or "xxh3:…" of all bytes if it has none.
/// Errors: UsageError if the file cannot be read.
std::string library_identity(const std::filesystem::path& file);

}  // namespace tessera::runtime

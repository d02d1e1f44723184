#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace tessera::tool {

/// nvdisasm or cuobjdump: beside this program, on PATH, or in a toolkit's folder; nothing if there is none.
std::optional<std::filesystem::path> find_disassembler();

/// The machine code of a cubin as text. Errors: UsageError if there is no disassembler or it fails.
std::string disassemble(std::span<const std::byte> cubin);

}  // namespace tessera::tool

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::runtime {

/// What a cubin says about one of its kernels.
struct CubinFacts {
    std::string kernel;
    int registers = 0;                     // of each thread
    int stack_bytes = 0;                   // of each thread; 0 proves that nothing was spilled
    std::int64_t static_shared_bytes = 0;  // of each block, without what the system reserves
    int instructions = 0;                  // with the padding at the end
};

/// True if the bytes begin like an ELF file, as every cubin does.
bool looks_like_elf(std::span<const std::byte> bytes);

/// The kernels of a cubin, in the order of their names. Nothing is loaded and no driver is needed.
/// Errors: UsageError if the bytes are no cubin or are damaged.
std::vector<CubinFacts> read_cubin(std::span<const std::byte> cubin);

/// Bytes that the assembler moved to local memory because registers ran out, summed over all functions of a log.
struct Spills {
    std::int64_t store_bytes = 0;
    std::int64_t load_bytes = 0;
};

/// Reads the log of a compilation with --ptxas-options=-v; nullopt if it has no line about spills.
std::optional<Spills> spills_in_log(std::string_view log);

}  // namespace tessera::runtime

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/cache/cache_key.hpp"
#include "runtime/cache/file_ops.hpp"

namespace tessera::runtime {

enum class ReadOutcome {
    read,
    absent,    // no file, or it cannot be opened just now
    unusable,  // something else stands there: a damaged or foreign file, a folder, a link, a file of another user
};

struct EntryBytes {
    ReadOutcome outcome = ReadOutcome::absent;
    std::vector<std::byte> bytes;  // of an ordinary file of ours whose size fits its header; not checked further
    std::int64_t stamp = 0;        // of its last use, nanoseconds since 1970
};

/// Reads a whole entry. Never follows a link, never waits (a pipe may stand there), and takes no memory for a file
/// whose header does not fit its size.
EntryBytes read_entry_file(const std::string& path, const FileOps& ops);

/// The first bytes of a file, at most `most`; empty if there are none to read.
std::vector<std::byte> read_first_bytes(const std::string& path, std::size_t most, const FileOps& ops);

/// Writes an entry beside its place, flushes it and renames it, whatever stands there. Makes the folders that are
/// missing. False: nothing was changed, nothing is left over, and `why` says what failed.
bool write_entry_file(const std::string& folder, const CacheKey& key, std::span<const std::byte> bytes,
                      const FileOps& ops, std::string* why);

}  // namespace tessera::runtime

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/cache/digest.hpp"
#include "runtime/cache/file_ops.hpp"
#include "runtime/cache/trust.hpp"

namespace tessera::runtime {

enum class ReadOutcome {
    read,
    absent,    // no file, or it cannot be opened just now
    unusable,  // something else stands there: a damaged or foreign file, a folder, a link, a file of another user
};

struct EntryBytes {
    ReadOutcome outcome = ReadOutcome::absent;
    std::vector<std::byte> bytes;  // of a trusted ordinary file whose size fits its header; not checked further
    std::int64_t stamp = 0;        // of its last use, nanoseconds since 1970
};

/// Reads a whole entry. Never follows a link, never waits (a pipe may stand there), and takes no memory for a file
/// whose header does not fit its size.
EntryBytes read_entry_file(const std::string& path, const FileOps& ops, Trust trust = Trust::own);

/// The first bytes of a file, at most `most`; empty if there are none to read.
std::vector<std::byte> read_first_bytes(const std::string& path, std::size_t most, const FileOps& ops);

/// Writes an entry as a file without a name, flushes it and puts it in its place, whatever stands there; where the file
/// system has no such files, beside its place, renamed when complete. Makes the folders that are missing. False:
/// nothing was changed, nothing is left over, and `why` says what failed.
bool write_entry_file(const std::string& folder, const Digest& name, std::span<const std::byte> bytes,
                      const FileOps& ops, std::string* why);

}  // namespace tessera::runtime

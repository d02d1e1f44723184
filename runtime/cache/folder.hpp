#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/digest.hpp"
#include "runtime/cache/file_ops.hpp"
#include "runtime/cache/trust.hpp"

namespace tessera::runtime {

// The folder: <folder>/<2 hex digits>/<30 hex digits>.cubin, and beside each entry, while it is written,
// <30 hex digits>.cubin.tmp-<16 hex digits>. An entry's time of modification is the stamp of its last use: set by the
// cache itself, so it does not hang on how the folder is mounted, and used for nothing but the order of eviction.

std::string subfolder_of(const std::string& folder, const Digest& name);
std::string entry_path(const std::string& folder, const Digest& name);

/// A name beside `path` that no other process uses, and that `scan_folder` knows as a left-over.
std::string temporary_path(const std::string& path, const FileOps& ops);

enum class FolderState { ready, missing, refused };

/// Whether entries of the folder may be trusted: it is a folder, of whom we trust, and nobody else may write to it. A
/// link to such a folder will do. `why` says why not, with the cure; `what` is the folder's name in it.
FolderState inspect_folder(const std::string& folder, const FileOps& ops, std::string* why, Trust trust = Trust::own,
                           const char* what = "the cubin cache folder");

/// Makes the folder, for the owner alone, and the folders above it; one that exists is success. False: errno says why.
bool make_folders(const std::string& folder, const FileOps& ops);

/// Clears a path of something that is in an entry's way: an empty folder is removed, anything else renamed to
/// <path>.aside-<16 hex digits>.
bool move_aside(const std::string& path, const FileOps& ops);

struct FoundFile {
    std::string path;
    Digest digest{};  // that its name stands for
    std::int64_t bytes = 0;
    std::int64_t stamp = 0;  // of the last use, nanoseconds since 1970
    bool temporary = false;
};

/// Every ordinary file that is named like an entry or a temporary; what cannot be read is passed over.
std::vector<FoundFile> scan_folder(const std::string& folder, const FileOps& ops);

/// Removes the temporaries of processes that died: those older than an hour. Returns how many.
int remove_leftovers(const std::vector<FoundFile>& files, const FileOps& ops);

}  // namespace tessera::runtime

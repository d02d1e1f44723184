#include "runtime/cache/entry_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <utility>

#include "runtime/cache/entry.hpp"
#include "runtime/cache/folder.hpp"
#include "runtime/cache/open_file.hpp"

namespace tessera::runtime {

namespace {

bool is_passing(int error) {
    return error == ENOENT || error == EMFILE || error == ENFILE || error == ENOMEM || error == ESTALE;
}

/// Opens a file that is not there yet, making or clearing what its folder needs.
OpenFile open_new(const std::string& path, int flags, const std::string& subfolder, const FileOps& ops) {
    flags |= O_WRONLY | O_CLOEXEC;
    int descriptor = ops.open(path.c_str(), flags, 0600);
    if (descriptor < 0 && errno == ENOTDIR && !move_aside(subfolder, ops)) return {-1, ops};
    if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        if (!make_folders(subfolder, ops)) return {-1, ops};
        descriptor = ops.open(path.c_str(), flags, 0600);
    }
    return {descriptor, ops};
}

bool fill(const OpenFile& file, std::span<const std::byte> bytes, const FileOps& ops) {
    if (!file.write(bytes)) return false;
    ops.set_stamp(file.descriptor(), ops.now());
    return ops.flush(file.descriptor()) == 0;
}

/// Puts a temporary in its place, or removes it.
bool rename_over(const std::string& temporary, const std::string& path, const FileOps& ops) {
    if (ops.rename(temporary.c_str(), path.c_str()) == 0) return true;
    if (errno == EISDIR || errno == EEXIST || errno == ENOTEMPTY) {
        if (move_aside(path, ops) && ops.rename(temporary.c_str(), path.c_str()) == 0) return true;
    }
    const int error = errno;
    ops.remove_file(temporary.c_str());
    errno = error;
    return false;
}

bool write_named(const std::string& path, const std::string& subfolder, std::span<const std::byte> bytes,
                 const FileOps& ops) {
    const std::string temporary = temporary_path(path, ops);
    OpenFile file = open_new(temporary, O_CREAT | O_EXCL | O_NOFOLLOW, subfolder, ops);
    if (!file.is_open()) return false;
    if (fill(file, bytes, ops) && file.close()) return rename_over(temporary, path, ops);
    const int error = errno;
    file.close();
    ops.remove_file(temporary.c_str());
    errno = error;
    return false;
}

/// A file without a name leaves nothing behind when its writer is killed. `try_named` becomes true where the file
/// system may have none, or cannot name it.
bool write_unnamed(const std::string& path, const std::string& subfolder, std::span<const std::byte> bytes,
                   const FileOps& ops, bool* try_named) {
    const OpenFile file = open_new(subfolder, O_TMPFILE, subfolder, ops);
    if (!file.is_open()) {
        *try_named = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
        return false;
    }
    if (!fill(file, bytes, ops)) return false;
    if (ops.link_unnamed(file.descriptor(), path.c_str()) == 0) return true;
    if (errno == EEXIST) {
        const std::string temporary = temporary_path(path, ops);
        if (ops.link_unnamed(file.descriptor(), temporary.c_str()) == 0) return rename_over(temporary, path, ops);
    }
    *try_named = true;
    return false;
}

}  // namespace

EntryBytes read_entry_file(const std::string& path, const FileOps& ops, Trust trust) {
    EntryBytes result;
    const OpenFile file = OpenFile::to_read(path, ops);
    if (!file.is_open()) {
        result.outcome = is_passing(errno) ? ReadOutcome::absent : ReadOutcome::unusable;
        return result;
    }
    result.outcome = ReadOutcome::unusable;
    struct stat status{};
    if (ops.status(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode)) return result;
    if (!distrust(status, trust, ops).empty()) return result;
    result.stamp = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    std::vector<std::byte> bytes(entry_header_bytes);
    if (file.read_at(0, bytes) != bytes.size()) return result;
    const auto announced = announced_bytes(bytes);
    if (!announced || *announced != static_cast<std::uint64_t>(status.st_size)) return result;
    bytes.resize(static_cast<std::size_t>(*announced));
    const auto rest = std::span(bytes).subspan(entry_header_bytes);
    if (file.read_at(entry_header_bytes, rest) != rest.size()) return result;
    result.bytes = std::move(bytes);
    result.outcome = ReadOutcome::read;
    return result;
}

std::vector<std::byte> read_first_bytes(const std::string& path, std::size_t most, const FileOps& ops) {
    const OpenFile file = OpenFile::to_read(path, ops);
    std::vector<std::byte> bytes(most);
    bytes.resize(file.is_open() ? file.read_at(0, bytes) : 0);
    return bytes;
}

bool write_entry_file(const std::string& folder, const Digest& name, std::span<const std::byte> bytes,
                      const FileOps& ops, std::string* why) {
    const std::string path = entry_path(folder, name), subfolder = subfolder_of(folder, name);
    bool try_named = false;
    if (write_unnamed(path, subfolder, bytes, ops, &try_named)) return true;
    if (try_named && write_named(path, subfolder, bytes, ops)) return true;
    *why = "the cubin cache folder " + folder + " cannot be written (" + std::generic_category().message(errno) + ")";
    return false;
}

}  // namespace tessera::runtime

#include "runtime/cache/entry_file.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <utility>

#include "runtime/cache/entry.hpp"
#include "runtime/cache/folder.hpp"

namespace tessera::runtime {

namespace {

/// A descriptor that is closed at the end of its scope.
class OpenFile {
public:
    OpenFile(int descriptor, const FileOps& ops) : ops_(ops), descriptor_(descriptor) {}
    ~OpenFile() { close(); }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    bool is_open() const { return descriptor_ >= 0; }
    int descriptor() const { return descriptor_; }
    /// Network file systems report a failed write only here.
    bool close() { return descriptor_ < 0 || ops_.close(std::exchange(descriptor_, -1)) == 0; }

    /// Bytes read: fewer than asked at the end of the file or on an error.
    std::size_t read(std::span<std::byte> into) const {
        std::size_t done = 0;
        while (done < into.size()) {
            const ssize_t got = ops_.read(descriptor_, into.data() + done, into.size() - done);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            done += static_cast<std::size_t>(got);
        }
        return done;
    }

    bool write(std::span<const std::byte> from) const {
        while (!from.empty()) {
            const ssize_t put = ops_.write(descriptor_, from.data(), from.size());
            if (put < 0 && errno == EINTR) continue;
            if (put == 0) errno = EIO;
            if (put <= 0) return false;
            from = from.subspan(static_cast<std::size_t>(put));
        }
        return true;
    }

private:
    const FileOps& ops_;
    int descriptor_;
};

bool is_passing(int error) {
    return error == ENOENT || error == EMFILE || error == ENFILE || error == ENOMEM || error == ESTALE;
}

bool is_ours(const struct stat& status, const FileOps& ops) {
    return S_ISREG(status.st_mode) && status.st_uid == ops.effective_user() && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

int open_to_read(const std::string& path, const FileOps& ops) {
    return ops.open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW, 0);
}

/// Opens a new file for writing, making or clearing what stands between.
int open_new(const std::string& temporary, const std::string& subfolder, const FileOps& ops) {
    constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int descriptor = ops.open(temporary.c_str(), flags, 0600);
    if (descriptor < 0 && errno == ENOTDIR && !move_aside(subfolder, ops)) return -1;
    if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        if (!make_folders(subfolder, ops)) return -1;
        descriptor = ops.open(temporary.c_str(), flags, 0600);
    }
    return descriptor;
}

bool rename_over(const std::string& temporary, const std::string& path, const FileOps& ops) {
    if (ops.rename(temporary.c_str(), path.c_str()) == 0) return true;
    if (errno != EISDIR && errno != EEXIST && errno != ENOTEMPTY) return false;
    return move_aside(path, ops) && ops.rename(temporary.c_str(), path.c_str()) == 0;
}

}  // namespace

EntryBytes read_entry_file(const std::string& path, const FileOps& ops) {
    EntryBytes result;
    const OpenFile file(open_to_read(path, ops), ops);
    if (!file.is_open()) {
        result.outcome = is_passing(errno) ? ReadOutcome::absent : ReadOutcome::unusable;
        return result;
    }
    result.outcome = ReadOutcome::unusable;
    struct stat status{};
    if (ops.status(file.descriptor(), &status) != 0 || !is_ours(status, ops)) return result;
    result.stamp = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    std::vector<std::byte> bytes(entry_header_bytes);
    if (file.read(bytes) != bytes.size()) return result;
    const auto announced = announced_bytes(bytes);
    if (!announced || *announced != static_cast<std::uint64_t>(status.st_size)) return result;
    bytes.resize(static_cast<std::size_t>(*announced));
    const auto rest = std::span(bytes).subspan(entry_header_bytes);
    if (file.read(rest) != rest.size()) return result;
    result.bytes = std::move(bytes);
    result.outcome = ReadOutcome::read;
    return result;
}

std::vector<std::byte> read_first_bytes(const std::string& path, std::size_t most, const FileOps& ops) {
    const OpenFile file(open_to_read(path, ops), ops);
    std::vector<std::byte> bytes(most);
    bytes.resize(file.is_open() ? file.read(bytes) : 0);
    return bytes;
}

bool write_entry_file(const std::string& folder, const CacheKey& key, std::span<const std::byte> bytes,
                      const FileOps& ops, std::string* why) {
    const std::string path = entry_path(folder, key);
    const std::string temporary = temporary_path(path, ops);
    OpenFile file(open_new(temporary, subfolder_of(folder, key), ops), ops);
    const bool opened = file.is_open();
    bool done = opened && file.write(bytes) && ops.flush(file.descriptor()) == 0 && file.close();
    if (done) {
        ops.set_stamp(temporary.c_str(), ops.now());
        done = rename_over(temporary, path, ops);
    }
    if (done) return true;
    const int error = errno;
    file.close();
    if (opened) ops.remove_file(temporary.c_str());
    *why = "the cubin cache folder " + folder + " cannot be written (" + std::generic_category().message(error) + ")";
    return false;
}

}  // namespace tessera::runtime

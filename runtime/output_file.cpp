#include "runtime/output_file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "dsl/base/error.hpp"

namespace tessera {

namespace {

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

const char* cure_of(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT: return "free some space or write to another disk";
        case EFBIG: return "raise the file size limit (ulimit -f) or write to another disk";
        case EACCES:
        case EPERM:
        case EROFS: return "choose a folder that you may write to";
        case ENOENT:
        case ENOTDIR: return "create the folder first";
        case ENAMETOOLONG: return "choose a shorter name";
        case EIO: return "check the disk";
        default: return "choose another place for the output";
    }
}

void refuse_bad_destination(const std::string& path, bool overwrite) {
    if (path.empty() || path.back() == '/') {
        throw UsageError(fmt::format("the output \"{}\" is no file name; give the name of a file", path));
    }
    struct stat found = {};
    if (::stat(path.c_str(), &found) != 0) return;
    if (S_ISDIR(found.st_mode)) {
        throw UsageError(fmt::format("the output {} is a folder; give the name of a file in it", path));
    }
    if (!S_ISREG(found.st_mode)) {
        throw UsageError(fmt::format("the output {} is no regular file; give the name of a new file", path));
    }
    if (!overwrite) {
        throw UsageError(
            fmt::format("the output {} exists already; remove it or ask for it to be replaced (--force)", path));
    }
}

/// Unique among processes and threads; O_EXCL settles what chance does not.
std::string temporary_name(const std::string& folder) {
    static std::atomic<unsigned> counter{std::random_device{}()};
    return fmt::format("{}/.tessera-{:x}-{:08x}.tmp", folder, ::getpid(), counter.fetch_add(0x9e3779b9u));
}

}  // namespace

OutputFile::OutputFile(std::string path, bool overwrite) : path_(std::move(path)), overwrite_(overwrite) {
    refuse_bad_destination(path_, overwrite_);
    for (int attempt = 0; attempt < 16 && descriptor_ < 0; ++attempt) {
        temporary_ = temporary_name(folder_of(path_));
        descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor_ < 0 && errno != EEXIST) break;
    }
    if (descriptor_ < 0) {
        const int error = errno;
        temporary_.clear();
        fail("creating a file in its folder", error);
    }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      overwrite_(other.overwrite_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() { discard(); }

void OutputFile::discard() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
}

void OutputFile::fail(const char* doing, int error) {
    discard();
    throw UsageError(fmt::format("the output {} could not be written ({}: {}); nothing was left behind; {}", path_,
                                 doing, std::strerror(error), cure_of(error)));
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (descriptor_ < 0) throw UsageError(fmt::format("the output {} is closed; it takes no more bytes", path_));
    while (!bytes.empty()) {
        const std::size_t piece = std::min<std::size_t>(bytes.size(), std::size_t{64} << 20);
        const ssize_t written = ::pwrite(descriptor_, bytes.data(), piece, static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail("writing", errno);
        if (written == 0) fail("writing", ENOSPC);
        offset += static_cast<std::uint64_t>(written);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void OutputFile::publish() {
    if (descriptor_ < 0) throw UsageError(fmt::format("the output {} is closed; it was published before", path_));
    if (::fsync(descriptor_) != 0) fail("flushing", errno);
    if (::close(std::exchange(descriptor_, -1)) != 0) fail("closing", errno);
    int renamed = -1;
    if (!overwrite_) {
        renamed = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
        if (renamed != 0 && errno == EEXIST) {
            discard();
            throw UsageError(
                fmt::format("the output {} appeared while it was being written; remove it and start again", path_));
        }
    }
    // Some file systems do not know "no replace"; the destination was free when the writing began.
    if (renamed != 0) renamed = std::rename(temporary_.c_str(), path_.c_str());
    if (renamed != 0) fail("renaming", errno);
    temporary_.clear();
    const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        ::fsync(folder);  // makes the new name durable; a file system that cannot is no reason to fail
        ::close(folder);
    }
}

}  // namespace tessera

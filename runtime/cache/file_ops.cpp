#include "runtime/cache/file_ops.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

namespace tessera::runtime {

namespace {

int open_file(const char* path, int flags, mode_t mode) {
    int descriptor = -1;
    do {
        descriptor = ::open(path, flags, mode);
    } while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

int flush_file(int descriptor) {
    int result = -1;
    do {
        result = ::fsync(descriptor);
    } while (result < 0 && errno == EINTR);
    // Some file systems cannot flush a single file; that is no reason not to keep the entry.
    return result < 0 && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) ? 0 : result;
}

int list_folder(const char* path, std::vector<std::string>* names) {
    DIR* folder = ::opendir(path);
    if (!folder) return -1;
    errno = 0;
    while (const dirent* entry = ::readdir(folder)) {
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
            names->emplace_back(entry->d_name);
        }
    }
    const int error = errno;
    ::closedir(folder);
    errno = error;
    return error ? -1 : 0;
}

int link_unnamed(int descriptor, const char* path) {
    const std::string source = "/proc/self/fd/" + std::to_string(descriptor);
    return ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

std::array<timespec, 2> only_modification(std::int64_t nanoseconds) {
    std::array<timespec, 2> times{};
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = nanoseconds / 1'000'000'000;
    times[1].tv_nsec = nanoseconds % 1'000'000'000;
    return times;
}

int set_stamp(int descriptor, std::int64_t nanoseconds) {
    return ::futimens(descriptor, only_modification(nanoseconds).data());
}

int set_stamp_of_path(const char* path, std::int64_t nanoseconds) {
    return ::utimensat(AT_FDCWD, path, only_modification(nanoseconds).data(), AT_SYMLINK_NOFOLLOW);
}

std::int64_t now() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

std::uint64_t random_bits() {
    std::uint64_t bits = 0;
    if (::getrandom(&bits, sizeof bits, GRND_NONBLOCK) == sizeof bits) return bits;
    const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
    return static_cast<std::uint64_t>(ticks) * 0x9e3779b97f4a7c15u ^ static_cast<std::uint64_t>(::getpid());
}

}  // namespace

const FileOps& real_file_ops() {
    static constexpr FileOps ops = {
        .open = open_file,
        .read_at = ::pread,
        .write = ::write,
        .flush = flush_file,
        .close = ::close,
        .status = ::fstat,
        .status_of_path = ::lstat,
        .link_unnamed = link_unnamed,
        .rename = ::rename,
        .remove_file = ::unlink,
        .remove_folder = ::rmdir,
        .make_folder = ::mkdir,
        .list_folder = list_folder,
        .set_stamp = set_stamp,
        .set_stamp_of_path = set_stamp_of_path,
        .effective_user = ::geteuid,
        .now = now,
        .random_bits = random_bits,
    };
    return ops;
}

}  // namespace tessera::runtime

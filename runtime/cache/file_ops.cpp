#include "runtime/cache/file_ops.hpp"

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

int set_stamp(const char* path, std::int64_t nanoseconds) {
    timespec times[2]{};
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = nanoseconds / 1'000'000'000;
    times[1].tv_nsec = nanoseconds % 1'000'000'000;
    return ::utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
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
        .read = ::read,
        .write = ::write,
        .flush = flush_file,
        .close = ::close,
        .status = ::fstat,
        .status_of_path = ::lstat,
        .rename = ::rename,
        .remove_file = ::unlink,
        .remove_folder = ::rmdir,
        .make_folder = ::mkdir,
        .list_folder = list_folder,
        .set_stamp = set_stamp,
        .effective_user = ::geteuid,
        .now = now,
        .random_bits = random_bits,
    };
    return ops;
}

}  // namespace tessera::runtime

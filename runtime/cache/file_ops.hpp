#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <vector>

namespace tessera::runtime {

/// Everything that the cache asks of the operating system, so that a test can make each call fail. Functions behave as
/// those of POSIX: a negative result and errno.
struct FileOps {
    int (*open)(const char* path, int flags, mode_t mode);
    ssize_t (*read_at)(int descriptor, void* into, std::size_t bytes, std::int64_t offset);  // pread
    ssize_t (*write)(int descriptor, const void* from, std::size_t bytes);
    int (*flush)(int descriptor);  // fsync
    int (*close)(int descriptor);
    int (*status)(int descriptor, struct stat* result);            // fstat
    int (*status_of_path)(const char* path, struct stat* result);  // lstat
    int (*link_unnamed)(int descriptor, const char* path);         // a name for a file opened with O_TMPFILE
    int (*rename)(const char* from, const char* to);
    int (*remove_file)(const char* path);    // unlink
    int (*remove_folder)(const char* path);  // rmdir
    int (*make_folder)(const char* path, mode_t mode);
    int (*list_folder)(const char* path, std::vector<std::string>* names);  // without "." and ".."
    int (*set_stamp)(int descriptor, std::int64_t nanoseconds);             // time of modification
    int (*set_stamp_of_path)(const char* path, std::int64_t nanoseconds);   // the same, no link followed
    uid_t (*effective_user)();
    std::int64_t (*now)();           // nanoseconds since 1970
    std::uint64_t (*random_bits)();  // never fails; unlike in every process and at every call
};

/// The operating system itself.
const FileOps& real_file_ops();

}  // namespace tessera::runtime

#include "tests/cache/faulty.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>

namespace tessera::test {

using runtime::FileOps;

Fault fault;

namespace {

const FileOps& real = runtime::real_file_ops();

bool strikes(unsigned kind) {
    if (!(fault.calls & kind)) return false;
    ++fault.count;
    if (fault.count < fault.first || fault.count > fault.last) return false;
    errno = fault.error;
    return true;
}

ssize_t read_at(int descriptor, void* into, std::size_t bytes, std::int64_t offset) {
    if (!strikes(call::read_at)) return real.read_at(descriptor, into, bytes, offset);
    if (!fault.is_short) return -1;
    return fault.count % 2 ? real.read_at(descriptor, into, bytes / 2, offset) : 0;  // half of it, then the end
}

ssize_t write(int descriptor, const void* from, std::size_t bytes) {
    if (!strikes(call::write)) return real.write(descriptor, from, std::min<std::size_t>(bytes, 1000));
    if (fault.is_short && fault.count % 2) return real.write(descriptor, from, bytes / 2 + 1);
    errno = fault.error;
    return -1;
}

}  // namespace

FileOps faulty_ops() {
    FileOps ops = real;
    ops.open = [](const char* path, int flags, mode_t mode) {
        const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
        if (strikes(unnamed || (flags & O_CREAT) ? call::create : call::open)) return -1;
        if (!unnamed || fault.unnamed_files) return real.open(path, flags, mode);
        errno = EOPNOTSUPP;
        return -1;
    };
    ops.link_unnamed = [](int descriptor, const char* path) {
        return strikes(call::link) ? -1 : real.link_unnamed(descriptor, path);
    };
    ops.read_at = read_at;
    ops.write = write;
    ops.flush = [](int) { return strikes(call::flush) ? -1 : 0; };
    ops.close = [](int descriptor) {
        const int result = real.close(descriptor);
        return strikes(call::close) ? -1 : result;
    };
    ops.status = [](int descriptor, struct stat* result) {
        return strikes(call::status) ? -1 : real.status(descriptor, result);
    };
    ops.status_of_path = [](const char* path, struct stat* result) {
        return strikes(call::status_of_path) ? -1 : real.status_of_path(path, result);
    };
    ops.rename = [](const char* from, const char* to) { return strikes(call::rename) ? -1 : real.rename(from, to); };
    ops.remove_file = [](const char* path) { return strikes(call::remove_file) ? -1 : real.remove_file(path); };
    ops.remove_folder = [](const char* path) { return strikes(call::remove_folder) ? -1 : real.remove_folder(path); };
    ops.make_folder = [](const char* path, mode_t mode) {
        const bool fails = strikes(call::make_folder);
        // Where it is there already, another process was faster: then it is there indeed.
        if (fails && fault.error == EEXIST) real.make_folder(path, mode);
        if (fails) errno = fault.error;
        return fails ? -1 : real.make_folder(path, mode);
    };
    ops.list_folder = [](const char* path, std::vector<std::string>* names) {
        return strikes(call::list_folder) ? -1 : real.list_folder(path, names);
    };
    ops.set_stamp = [](int descriptor, std::int64_t stamp) {
        return strikes(call::set_stamp) ? -1 : real.set_stamp(descriptor, stamp);
    };
    ops.set_stamp_of_path = [](const char* path, std::int64_t stamp) {
        return strikes(call::set_stamp) ? -1 : real.set_stamp_of_path(path, stamp);
    };
    return ops;
}

}  // namespace tessera::test

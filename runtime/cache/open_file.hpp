#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <span>
#include <string>
#include <utility>

#include "runtime/cache/file_ops.hpp"

namespace tessera::runtime {

/// A descriptor that is closed at the end of its scope.
class OpenFile {
public:
    OpenFile(int descriptor, const FileOps& ops) : ops_(&ops), descriptor_(descriptor) {}
    OpenFile(OpenFile&& other) noexcept : ops_(other.ops_), descriptor_(std::exchange(other.descriptor_, -1)) {}
    OpenFile& operator=(OpenFile&& other) noexcept {
        close();
        ops_ = other.ops_;
        descriptor_ = std::exchange(other.descriptor_, -1);
        return *this;
    }
    ~OpenFile() { close(); }

    /// Never follows a link and never waits: a pipe may stand there.
    static OpenFile to_read(const std::string& path, const FileOps& ops) {
        return {ops.open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW, 0), ops};
    }

    bool is_open() const { return descriptor_ >= 0; }
    int descriptor() const { return descriptor_; }
    /// Network file systems report a failed write only here.
    bool close() { return descriptor_ < 0 || ops_->close(std::exchange(descriptor_, -1)) == 0; }

    /// Bytes read from `offset` on: fewer than asked at the end of the file or on an error.
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> into) const {
        std::size_t done = 0;
        while (done < into.size()) {
            const ssize_t got = ops_->read_at(descriptor_, into.data() + done, into.size() - done,
                                              static_cast<std::int64_t>(offset + done));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            done += static_cast<std::size_t>(got);
        }
        return done;
    }

    bool write(std::span<const std::byte> from) const {
        while (!from.empty()) {
            const ssize_t put = ops_->write(descriptor_, from.data(), from.size());
            if (put < 0 && errno == EINTR) continue;
            if (put == 0) errno = EIO;
            if (put <= 0) return false;
            from = from.subspan(static_cast<std::size_t>(put));
        }
        return true;
    }

private:
    const FileOps* ops_;
    int descriptor_;
};

}  // namespace tessera::runtime

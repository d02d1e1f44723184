#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera {

/// A file that is written beside its place and appears there only when it is complete: a temporary name in the same
/// folder, flushed, then renamed. Until `publish` has returned the destination is untouched; without it the temporary
/// is removed.
class OutputFile {
public:
    /// Errors: UsageError when the folder does not exist or cannot be written, when `path` is a folder or a device,
    /// and, without `overwrite`, when it exists.
    OutputFile(std::string path, bool overwrite);
    ~OutputFile();
    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&&) = delete;

    const std::string& path() const { return path_; }

    /// Writes at `offset` bytes from the start. Errors: UsageError for a full disk or a failing device; nothing is
    /// left.
    void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

    /// Flushes to the disk and takes the place of `path`.
    void publish();

private:
    [[noreturn]] void fail(const char* doing, int error);
    void discard();

    std::string path_;
    std::string temporary_;
    bool overwrite_;
    int descriptor_ = -1;
};

}  // namespace tessera

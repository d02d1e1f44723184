#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "dsl/base/error.hpp"
#include "runtime/json.hpp"
#include "runtime/safetensors_header.hpp"

namespace tessera {

namespace {

// pread and not a mapping: a mapped file that another process shortens kills the reader with SIGBUS.
void read_at(const std::string& path, int descriptor, std::uint64_t offset, std::span<std::byte> into) {
    while (!into.empty()) {
        const std::size_t piece = std::min<std::size_t>(into.size(), std::size_t{64} << 20);
        const ssize_t got = ::pread(descriptor, into.data(), piece, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            throw UsageError(fmt::format("{}: reading at byte {} failed ({}); check the disk or fetch the file again",
                                         path, offset, std::strerror(errno)));
        }
        if (got == 0) {
            throw UsageError(
                fmt::format("{}: the file ends at byte {}, although it was longer when it was opened; "
                            "do not change it while it is read",
                            path, offset));
        }
        offset += static_cast<std::uint64_t>(got);
        into = into.subspan(static_cast<std::size_t>(got));
    }
}

std::uint64_t little_endian(std::span<const std::byte, 8> bytes) {
    std::uint64_t value = 0;
    for (int i = 7; i >= 0; --i)
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[static_cast<std::size_t>(i)]);
    return value;
}

/// Length of the header, checked against the file's size and the format's bound before anything is allocated.
std::uint64_t header_length(const std::string& path, int descriptor, std::uint64_t file_bytes) {
    if (file_bytes == 0) throw UsageError(fmt::format("{}: the file is empty; fetch or write it again", path));
    if (file_bytes < 8) {
        throw UsageError(
            fmt::format("{}: the file has {} bytes and not even the 8 of its header's length; fetch or write "
                        "it again",
                        path, file_bytes));
    }
    std::byte bytes[8];
    read_at(path, descriptor, 0, bytes);
    const std::uint64_t length = little_endian(bytes);
    if (length > safetensors::largest_header) {
        throw UsageError(
            fmt::format("{}: its header would be {} bytes long, more than the format's {}, so this is no "
                        "safetensors file; check what was given",
                        path, length, safetensors::largest_header));
    }
    if (length > file_bytes - 8) {
        throw UsageError(
            fmt::format("{}: its header of {} bytes is cut off: the file has only {}; fetch or write it again", path,
                        length, file_bytes));
    }
    return length;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path) {
    // O_NONBLOCK: a named pipe must not wait for a writer before it can be refused.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        const int error = errno;
        throw UsageError(error == ENOENT ? fmt::format("{}: there is no such file; check the path", path)
                                         : fmt::format("{}: the file cannot be opened ({}); check the path and its "
                                                       "permissions",
                                                       path, std::strerror(error)));
    }
    SafetensorsFile file(path, descriptor);
    struct stat found = {};
    if (::fstat(descriptor, &found) != 0 || S_ISDIR(found.st_mode)) {
        throw UsageError(fmt::format("{}: this is a folder; give a .safetensors file", path));
    }
    if (!S_ISREG(found.st_mode)) {
        throw UsageError(fmt::format("{}: this is no regular file; give a .safetensors file on a disk", path));
    }
    const auto file_bytes = static_cast<std::uint64_t>(found.st_size);
    const std::uint64_t length = header_length(path, descriptor, file_bytes);
    std::string text(length, '\0');
    read_at(path, descriptor, 8, std::as_writable_bytes(std::span(text)));
    file.data_begin_ = 8 + length;
    safetensors::Header header = safetensors::parse_header(path, text, file_bytes - file.data_begin_);
    file.tensors_ = std::move(header.tensors);
    file.metadata_ = std::move(header.metadata);
    return file;
}

SafetensorsFile::~SafetensorsFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_begin_(other.data_begin_),
      tensors_(std::move(other.tensors_)),
      metadata_(std::move(other.metadata_)) {}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
    for (const StoredTensor& t : tensors_) {
        if (t.name == name) return &t;
    }
    return nullptr;
}

std::vector<std::byte> SafetensorsFile::read(const StoredTensor& tensor) const {
    std::vector<std::byte> bytes;
    try {
        bytes.resize(tensor.bytes());
    } catch (const std::exception&) {
        throw UsageError(fmt::format("{}: there is no memory for the {} bytes of the tensor {}; read it in pieces",
                                     path_, tensor.bytes(), json::shown(tensor.name)));
    }
    read(tensor, 0, bytes);
    return bytes;
}

void SafetensorsFile::read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::byte> into) const {
    if (offset > tensor.bytes() || into.size() > tensor.bytes() - offset) {
        throw UsageError(fmt::format("{}: {} bytes from {} on lie outside the tensor {} of {} bytes; ask for less",
                                     path_, into.size(), offset, json::shown(tensor.name), tensor.bytes()));
    }
    read_at(path_, descriptor_, data_begin_ + tensor.begin + offset, into);
}

}  // namespace tessera

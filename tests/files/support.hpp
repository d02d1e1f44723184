#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "dsl/base/error.hpp"

namespace tessera::files_test {

/// A folder of its own for one test, removed at the end.
class Folder {
public:
    Folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "tessera-files-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    std::string file(const std::string& name) const { return (path_ / name).string(); }
    const std::filesystem::path& path() const { return path_; }
    std::size_t entries() const {
        std::size_t n = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++n;
        return n;
    }

private:
    std::filesystem::path path_;
};

inline std::string with_length(std::uint64_t length, std::string_view header, std::size_t data_bytes) {
    std::string text;
    for (int i = 0; i < 8; ++i) text.push_back(static_cast<char>(length >> (8 * i) & 0xff));
    text += header;
    for (std::size_t i = 0; i < data_bytes; ++i) text.push_back(static_cast<char>(i * 37 + 11));
    return text;
}

inline std::string with_header(std::string_view header, std::size_t data_bytes) {
    return with_length(header.size(), header, data_bytes);
}

inline void put(const std::string& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string get(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// The text of the UsageError that `action` throws; empty if it throws none.
template <class Action>
std::string usage_error(Action&& action) {
    try {
        action();
    } catch (const UsageError& error) {
        return error.what();
    }
    return {};
}

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace tessera::files_test

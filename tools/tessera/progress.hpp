#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tessera::tool {

/// A bar on stderr that follows an amount of bytes; nothing at all where stderr is no terminal.
class Progress {
public:
    Progress(std::string what, std::uint64_t total);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void add(std::uint64_t bytes);

private:
    void draw();

    std::string what_;
    std::uint64_t total_;
    std::uint64_t done_ = 0;
    bool terminal_;
    std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace tessera::tool

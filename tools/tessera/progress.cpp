#include "tools/tessera/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace tessera::tool {

namespace {
constexpr int width = 40;
constexpr auto pause = std::chrono::milliseconds(50);
}  // namespace

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)), total_(total), terminal_(::isatty(STDERR_FILENO) != 0) {
    draw();
}

Progress::~Progress() {
    if (terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::add(std::uint64_t bytes) {
    done_ += bytes;
    if (std::chrono::steady_clock::now() - drawn_ >= pause) draw();
}

void Progress::draw() {
    if (!terminal_) return;
    drawn_ = std::chrono::steady_clock::now();
    const double part = total_ == 0 ? 1.0 : std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    const int filled = static_cast<int>(part * width);
    fmt::print(stderr, "\r{} [{}{}] {:3.0f} %", what_, std::string(static_cast<std::size_t>(filled), '#'),
               std::string(static_cast<std::size_t>(width - filled), '.'), part * 100);
    std::fflush(stderr);
}

}  // namespace tessera::tool

#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "runtime/driver/api.hpp"

namespace tessera::runtime {

/// Device memory, from one request of the driver.
struct Piece {
    DriverPointer address = 0;
    std::int64_t bytes = 0;
};

/// Memory that was given back on one stream and waits for the next request on the same one, which then costs no call
/// of the driver. Work on a stream runs in its order, so what is started after memory was given back may use it while
/// its last user still waits to run. Any thread may call; nothing here takes memory of the host.
class StreamMemory {
public:
    static constexpr std::size_t most_pieces = 64;

    /// `limit`: bytes that wait at most; 0: none do.
    explicit StreamMemory(std::int64_t limit) : limit_(limit) {}
    StreamMemory(const StreamMemory&) = delete;
    StreamMemory& operator=(const StreamMemory&) = delete;

    /// Bytes to ask the driver for, so that like requests meet: at most an eighth more than wanted, or the next
    /// multiple of 256. 0: a piece of that size is not kept, being more than a quarter of the limit.
    std::int64_t size_for(std::int64_t bytes) const;

    /// The piece of just this size that waits since the shortest time; 0: there is none.
    DriverPointer take(std::int64_t size);

    /// Keeps a piece, of a size that size_for gave. False: there is no room; let go of the oldest first.
    bool keep(const Piece& piece);
    std::optional<Piece> let_go_of_oldest();

private:
    const std::int64_t limit_;
    std::mutex mutex_;
    std::array<Piece, most_pieces> waiting_;  // the first `count_`, oldest first
    std::size_t count_ = 0;
    std::int64_t bytes_ = 0;
};

}  // namespace tessera::runtime

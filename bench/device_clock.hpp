#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/stream.hpp"

namespace tessera::bench {

/// Device time of one launch, without what the host or the graph costs: graphs of a few and of many launches are
/// replayed, and their difference is divided by the launches between them. Median of many pairs.
class DeviceClock {
public:
    explicit DeviceClock(const Stream& stream);

    struct Time {
        double microseconds;  // median
        double spread;        // (third quartile − first) / median
        int pairs;
    };
    /// launch(i) puts launch number i on the stream; i tells which of the rotated buffers to use.
    /// Errors: UsageError on a host stream, or when the driver fails.
    Time time(const std::function<void(int)>& launch) const;

    /// Sets of buffers that must be rotated so that each launch finds its own evicted from L2: together they move at
    /// least four times the L2 between two uses of one.
    int sets_beyond_cache(std::int64_t bytes_of_one) const;

private:
    const Stream& stream_;
    std::int64_t l2_bytes_;
};

}  // namespace tessera::bench

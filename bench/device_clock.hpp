#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/stream.hpp"

namespace tessera::bench {

namespace cupti {
class Recorder;
}

/// What tells device time: CUPTI's records of kernels, copies and fills, or the differences of graph replays. The
/// latter contain the gaps between kernels that follow each other, the former do not.
enum class ClockKind : std::uint8_t { automatic, cupti, graph };

/// "auto", "cupti", "graph". Errors: UsageError for anything else.
ClockKind clock_kind(const std::string& text);

/// Device time of one launch, without what the host costs. Median of many.
class DeviceClock {
public:
    /// `automatic` is CUPTI where it can be found and works (a first record shows that), else graphs. Errors:
    /// UsageError on a host stream, and where CUPTI is asked for by name and does not work.
    explicit DeviceClock(const Stream& stream, ClockKind kind = ClockKind::automatic);
    ~DeviceClock();

    struct Time {
        double microseconds;  // median
        double spread;        // (third quartile − first) / median
        int samples;
    };
    /// launch(i) puts launch number i on the stream; i tells which of the rotated buffers to use.
    /// Errors: UsageError when the driver or CUPTI fails.
    Time time(const std::function<void(int)>& launch) const;

    /// Sets of buffers that must be rotated so that each launch finds its own evicted from L2: together they move at
    /// least four times the L2 between two uses of one.
    int sets_beyond_cache(std::int64_t bytes_of_one) const;

    /// "cupti" or "graph", as files say it.
    std::string name() const;
    /// The same for readers, with CUPTI's version.
    std::string description() const;
    /// Why CUPTI is not used, where that was left open; else empty.
    const std::string& remark() const { return remark_; }

private:
    std::vector<double> times_by_records(const std::function<void(int)>& launch) const;
    void start_recorder();

    const Stream& stream_;
    std::int64_t l2_bytes_;
    std::unique_ptr<cupti::Recorder> recorder_;  // null: graphs
    std::string remark_;
};

}  // namespace tessera::bench

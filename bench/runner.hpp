#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/case.hpp"
#include "bench/device_clock.hpp"

namespace tessera::bench {

/// What was measured of one case.
struct Row {
    std::string kernel, name;
    std::int64_t bytes = 0;
    int sets = 0;       // of buffers that were rotated
    std::string clock;  // that told the time: DeviceClock::name
    DeviceClock::Time time{};
    double copy_us = 0;                         // a driver copy that moves as many bytes, in this run
    double launch_us = 0;                       // host time of one launch
    std::optional<int> registers, stack_bytes;  // of a thread; a stack is where spills go
    double compile_ms = 0;                      // 0: it came from a cache
    std::optional<double> reference_us, goal_us;

    double gigabytes_per_second() const { return static_cast<double>(bytes) / time.microseconds / 1e3; }
    double of_copy() const { return copy_us / time.microseconds; }
};

/// The reference's figures by kernel and case: bench/reference.json, which is built in.
class Figures {
public:
    Figures();
    void fill(Row& row) const;

private:
    std::map<std::pair<std::string, std::string>, std::pair<double, double>> figures_;
};

/// Measures cases on one stream of a GPU; copies of each size once.
class Runner {
public:
    /// Errors: as DeviceClock.
    Runner(const Stream& stream, ClockKind kind) : stream_(stream), clock_(stream, kind) {}
    Row run(const Case& c);
    const DeviceClock& clock() const { return clock_; }

private:
    double copy_us(std::int64_t bytes);
    const Stream& stream_;
    DeviceClock clock_;
    std::map<std::int64_t, double> copies_;
};

/// Elements a second of one launch on the host executor; median of three.
double host_elements_per_second(const Stream& host, const Case& c);

}  // namespace tessera::bench

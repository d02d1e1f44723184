#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera {

/// What it took to obtain kernels, since the start of an engine (or of the process). Times are sums in milliseconds of
/// host time.
struct Counters {
    std::int64_t memory_hits = 0;  // found ready in this process; of threads that ask at once some are not counted
    std::int64_t disk_hits = 0;
    std::int64_t bundle_hits = 0;
    std::int64_t misses = 0;    // neither in memory, nor on disk, nor in a bundle
    std::int64_t compiles = 0;  // calls of NVRTC, failed ones included
    double record_ms = 0, lower_ms = 0, emit_ms = 0;
    double digest_ms = 0;   // naming the compiler and the cache entry
    double disk_ms = 0;     // looking it up in the disk cache
    double compile_ms = 0;  // in NVRTC
    double load_ms = 0;     // into the driver
};

namespace runtime {

/// Counters that threads add to.
class CounterSet {
public:
    std::atomic<std::int64_t> memory_hits{0}, disk_hits{0}, bundle_hits{0}, misses{0}, compiles{0};
    std::atomic<std::int64_t> record_ns{0}, lower_ns{0}, emit_ns{0}, digest_ns{0}, disk_ns{0}, compile_ns{0},
        load_ns{0};

    Counters values() const {
        const auto ms = [](const std::atomic<std::int64_t>& ns) { return static_cast<double>(ns.load()) * 1e-6; };
        return {memory_hits,  disk_hits,   bundle_hits,   misses,      compiles,       ms(record_ns),
                ms(lower_ns), ms(emit_ns), ms(digest_ns), ms(disk_ns), ms(compile_ns), ms(load_ns)};
    }
};

/// Adds one on the way to a launch. Threads that do so at once may take back what others have added meanwhile: an
/// addition that nobody loses would wait until all that was stored before is in the cache, which takes longer than the
/// rest of a look-up.
inline void count_cheaply(std::atomic<std::int64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Adds the time of a scope to a sum of nanoseconds.
class Stopwatch {
public:
    explicit Stopwatch(std::atomic<std::int64_t>& sum) : sum_(sum) {}
    ~Stopwatch() { sum_.fetch_add(nanoseconds(), std::memory_order_relaxed); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    std::int64_t nanoseconds() const {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin_).count();
    }

private:
    std::atomic<std::int64_t>& sum_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace runtime
}  // namespace tessera

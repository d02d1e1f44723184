#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/cupti/api.hpp"

namespace tessera::bench::cupti {

/// A kernel, copy or fill, in nanoseconds of CUPTI's clock.
struct Activity {
    std::uint64_t begin, end;
};

/// Records what GPUs do, as CUPTI tells. One at a time in a process.
class Recorder {
public:
    /// Opens libcupti. Errors: UsageError if it cannot be, or is a version whose records are not known.
    explicit Recorder(const std::filesystem::path& library);
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// What happens on all GPUs during `body`, which waits for it; ordered by begin. Nothing is traced before and
    /// after. Errors: UsageError if CUPTI refuses, loses records, or gives times outside of the body's.
    std::vector<Activity> record(const std::function<void()>& body);

    /// "CUPTI 13.0".
    const std::string& name() const { return name_; }

private:
    void check(Result result, const char* call) const;
    void check_times(const std::vector<Activity>& activities, std::uint64_t from, std::uint64_t to) const;

    Api api_;
    std::string name_;
};

}  // namespace tessera::bench::cupti

#include "runtime/report_records.hpp"

#include "runtime/ask_for_memory.hpp"
#include "runtime/driver/driver.hpp"

namespace tessera::runtime {

namespace {

constexpr unsigned apart_from_default_stream = 1;
constexpr unsigned without_times = 2;

/// What this thread calls is allowed while some stream is captured.
class BesideCaptures {
public:
    explicit BesideCaptures(const DriverApi& api) : api_(api) { api_.thread_capture_mode(&mode_); }
    ~BesideCaptures() { api_.thread_capture_mode(&mode_); }
    BesideCaptures(const BesideCaptures&) = delete;
    BesideCaptures& operator=(const BesideCaptures&) = delete;

private:
    const DriverApi& api_;
    int mode_ = capture_mode_relaxed;
};

class PrivateStream {
public:
    explicit PrivateStream(const DriverApi& api) : api_(api) {
        check_driver(api.stream_create(&handle_, apart_from_default_stream), "cuStreamCreate",
                     "make a stream for records of reports");
    }
    ~PrivateStream() { api_.stream_destroy(handle_); }
    PrivateStream(const PrivateStream&) = delete;
    PrivateStream& operator=(const PrivateStream&) = delete;
    void* handle() const { return handle_; }

private:
    const DriverApi& api_;
    void* handle_ = nullptr;
};

DriverPointer cleared_memory(const DriverApi& api, void* stream, const ReportRecords::Memory& memory) {
    DriverPointer address = 0;
    const auto ask = [&] { return api.allocate(&address, ReportRecords::bytes, memory.pool, stream); };
    check_driver(ask_for_memory(ask, memory.make_room), "cuMemAllocFromPoolAsync",
                 "take memory for records of reports");
    check_driver(api.fill_bytes(address, 0xFF, ReportRecords::bytes, stream), "cuMemsetD8Async",
                 "clear records of reports");
    return address;
}

}  // namespace

ReportRecords ReportRecords::ready(const DriverApi& api, const Memory& memory) {
    const BesideCaptures relaxed(api);
    const PrivateStream stream(api);
    ReportRecords made;
    made.address_ = cleared_memory(api, stream.handle(), memory);
    check_driver(api.stream_synchronize(stream.handle()), "cuStreamSynchronize", "clear records of reports");
    return made;
}

ReportRecords ReportRecords::ordered(const DriverApi& api, void* stream, const Memory& memory) {
    const BesideCaptures relaxed(api);
    ReportRecords made;
    made.owner_ = stream;
    check_driver(api.context_current(&made.context_), "cuCtxGetCurrent", "clear records of reports");
    made.address_ = cleared_memory(api, stream, memory);
    check_driver(api.event_create(&made.cleared_, without_times), "cuEventCreate", "clear records of reports");
    check_driver(api.event_record(made.cleared_, stream), "cuEventRecord", "clear records of reports");
    return made;
}

bool ReportRecords::has_context(const DriverApi& api) const {
    void* own = nullptr;
    return api.context_push(context_) == driver_code::success && api.context_pop(&own) == driver_code::success;
}

bool ReportRecords::come_before(const DriverApi& api, void* stream) const {
    if (is_ready() || stream == owner_) return true;
    if (!has_context(api)) return false;
    check_driver(api.stream_wait_event(stream, cleared_, 0), "cuStreamWaitEvent", "read what kernels reported");
    return true;
}

void ReportRecords::set_ready(const DriverApi& api) {
    if (is_ready()) return;
    const BesideCaptures relaxed(api);
    if (has_context(api)) api.event_destroy(cleared_);
    cleared_ = owner_ = context_ = nullptr;
}

}  // namespace tessera::runtime

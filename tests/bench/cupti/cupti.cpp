#include "tests/bench/cupti/cupti.hpp"

#include <cstring>

using tessera::fake::Activity;
using tessera::fake::CuptiControl;

namespace {

using Requested = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using Completed = void (*)(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);

constexpr int success = 0, invalid_operation = 7, max_limit_reached = 12, not_initialized = 15;

CuptiControl control;
Requested requested = nullptr;
Completed completed = nullptr;

int result_of(const char* function) { return control.fails == function ? control.result : success; }

/// The fields of CUpti_ActivityKernel10, CUpti_ActivityMemcpy6 and CUpti_ActivityMemset4 that a reader may look at.
void write(std::uint8_t* at, const Activity& a) {
    std::memset(at, 0xEE, control.record_bytes);
    const std::uint64_t begin = control.clock + a.begin, end = control.clock + a.end;
    std::memcpy(at, &a.kind, 4);
    std::memcpy(at + 16, &begin, 8);
    std::memcpy(at + 24, &end, 8);
}

void deliver(const std::vector<Activity>& activities) {
    std::uint8_t* buffer = nullptr;
    std::size_t bytes = 0, most = 0;
    requested(&buffer, &bytes, &most);
    std::size_t used = 0;
    for (const Activity& a : activities) {
        write(buffer + used, a);
        used += control.record_bytes;
    }
    completed(nullptr, 0, buffer, bytes, used);
}

}  // namespace

extern "C" {

CuptiControl* fake_cupti_control() { return &control; }

int cuptiGetVersion(std::uint32_t* version) {
    *version = control.version;
    return result_of("cuptiGetVersion");
}
int cuptiGetResultString(int result, const char** text) {
    *text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_OF_THE_FAKE";
    return success;
}
int cuptiGetTimestamp(std::uint64_t* time) {
    *time = control.clock += 10'000'000;
    return result_of("cuptiGetTimestamp");
}
int cuptiActivityRegisterCallbacks(Requested request, Completed complete) {
    requested = request, completed = complete;
    return result_of("cuptiActivityRegisterCallbacks");
}
int cuptiActivityEnable(std::uint32_t) {
    if (!requested) return invalid_operation;
    if (const int result = result_of("cuptiActivityEnable")) return result;
    ++control.kinds_enabled;
    return success;
}
int cuptiActivityDisable(std::uint32_t) {
    if (control.kinds_enabled > 0) --control.kinds_enabled;
    return success;
}
int cuptiActivityFlushAll(std::uint32_t) {
    if (control.kinds_enabled == 0) return not_initialized;
    if (const int result = result_of("cuptiActivityFlushAll")) return result;
    ++control.flushes;
    if (control.deliveries.empty()) return success;
    const std::vector<Activity> now = control.deliveries.front();
    control.deliveries.erase(control.deliveries.begin());
    deliver(now);
    return success;
}
int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes, void** record) {
    if (const int result = result_of("cuptiActivityGetNextRecord")) return result;
    std::uint8_t* const next = *record ? static_cast<std::uint8_t*>(*record) + control.record_bytes : buffer;
    if (next + control.record_bytes > buffer + bytes) return max_limit_reached;
    *record = next;
    return success;
}
int cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* dropped) {
    *dropped = control.dropped;
    return success;
}
}

#include "runtime/device_state.hpp"

#include <fmt/format.h>
#include <limits>

#include "dsl/base/error.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/engine.hpp"

namespace tessera::runtime {

void* DeviceState::context() {
    const DriverApi& api = driver_api();
    const std::lock_guard lock(context_mutex_);
    unsigned flags = 0;
    int active = 0;
    const bool alive =
        context_ && api.primary_context_state(index, &flags, &active) == driver_code::success && active != 0;
    if (alive) return context_;
    check_driver(api.primary_context_retain(&context_, index), "cuDevicePrimaryCtxRetain",
                 fmt::format("start {}", spelling));
    ++context_number_;
    pool_ = nullptr;
    default_stream_ = nullptr;
    const std::lock_guard pending_lock(pending_mutex_);
    pending_.clear();
    return context_;
}

void* DeviceState::memory_pool() {
    if (void* const ready = pool_) return ready;
    const std::lock_guard lock(pool_mutex_);
    if (void* const ready = pool_) return ready;
    const DriverApi& api = driver_api();
    MemoryPoolProperties properties;
    properties.location_id = index;
    void* made = nullptr;
    check_driver(api.pool_create(&made, &properties), "cuMemPoolCreate", "make a memory pool on " + spelling);
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    check_driver(api.pool_set_attribute(made, pool_attribute_release_threshold, &keep), "cuMemPoolSetAttribute",
                 "set up the memory pool of " + spelling);
    pool_ = made;
    return made;
}

Engine& DeviceState::make_engine() {
    std::call_once(engine_once_, [this] {
        engine_.store(new Engine(index < 0 ? Device::host(target) : Device::cuda(index)), std::memory_order_release);
    });
    return *engine_.load(std::memory_order_relaxed);
}

Reports& DeviceState::reports() {
    std::call_once(reports_once_, [this] {
        reports_ = std::make_unique<Reports>(driver_api(), spelling, [this] { release_stream_memory(); });
    });
    return *reports_;
}

void DeviceState::free_later(Pending pending) {
    const std::lock_guard lock(pending_mutex_);
    pending_.push_back(std::move(pending));
    has_pending_ = true;
}

void DeviceState::free_pending() {
    if (!has_pending_) return;
    std::vector<Pending> waiting;
    {
        const std::lock_guard lock(pending_mutex_);
        waiting.swap(pending_);
        has_pending_ = false;
    }
    std::erase_if(waiting, [](const Pending& p) {
        try {
            const CurrentContext current(p.context);
            return !is_capturing(p.stream) && driver().api.free(p.address, p.stream) == driver_code::success;
        } catch (const UsageError&) {
            return true;  // the context is gone, and the memory with it
        }
    });
    for (Pending& p : waiting) free_later(std::move(p));
}

std::shared_ptr<StreamState> DeviceState::default_stream() {
    const std::lock_guard lock(context_mutex_);
    if (!default_stream_)
        default_stream_ =
            std::make_shared<StreamState>(*this, nullptr, context_, StreamState::Owner::driver, stream_memory_limit());
    return default_stream_;
}

void DeviceState::add_stream(StreamState& stream) {
    const std::lock_guard lock(streams_mutex_);
    streams_.push_back(&stream);
}

void DeviceState::remove_stream(StreamState& stream) {
    const std::lock_guard lock(streams_mutex_);
    std::erase(streams_, &stream);
}

void DeviceState::release_stream_memory() {
    const std::lock_guard lock(streams_mutex_);
    for (StreamState* stream : streams_) stream->release_memory();
}

bool is_capturing(void* stream) {
    int status = 0;
    const DriverResult result = driver().api.stream_is_capturing(stream, &status);
    return result == driver_code::capture_implicit || (result == driver_code::success && status != 0);
}

std::uint64_t capture_of(void* stream) {
    int status = 0;
    std::uint64_t number = 0;
    if (!is_capturing(stream)) return 0;
    const DriverResult result = driver().api.stream_capture_info(stream, &status, &number, nullptr, nullptr, nullptr);
    return result == driver_code::success && status != 0 ? number : 0;
}

}  // namespace tessera::runtime

#include "runtime/device_state.hpp"

#include <fmt/format.h>
#include <limits>

#include "dsl/base/error.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/engine.hpp"

namespace tessera::runtime {

void* DeviceState::context() {
    std::call_once(context_once_, [this] {
        const DriverApi& api = driver_api();
        check_driver(api.primary_context_retain(&context_, index), "cuDevicePrimaryCtxRetain",
                     fmt::format("start {}", spelling));
    });
    return context_;
}

void* DeviceState::memory_pool() {
    std::call_once(pool_once_, [this] {
        const DriverApi& api = driver_api();
        MemoryPoolProperties properties;
        properties.location_id = index;
        check_driver(api.pool_create(&pool_, &properties), "cuMemPoolCreate", "make a memory pool on " + spelling);
        std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
        check_driver(api.pool_set_attribute(pool_, pool_attribute_release_threshold, &keep), "cuMemPoolSetAttribute",
                     "set up the memory pool of " + spelling);
    });
    return pool_;
}

Engine& DeviceState::engine() {
    std::call_once(engine_once_,
                   [this] { engine_ = new Engine(index < 0 ? Device::host(target) : Device::cuda(index)); });
    return *engine_;
}

Reports& DeviceState::reports() {
    std::call_once(reports_once_, [this] { reports_ = std::make_unique<Reports>(driver_api(), spelling); });
    return *reports_;
}

void DeviceState::free_later(Pending pending) {
    const std::lock_guard lock(pending_mutex_);
    pending_.push_back(std::move(pending));
}

void DeviceState::free_pending() {
    const std::lock_guard lock(pending_mutex_);
    std::erase_if(pending_, [](const Pending& p) {
        return !is_capturing(p.stream) && driver().api.free(p.address, p.stream) == driver_code::success;
    });
}

bool is_capturing(void* stream) {
    int status = 0;
    const DriverResult result = driver().api.stream_is_capturing(stream, &status);
    return result == driver_code::capture_implicit || (result == driver_code::success && status != 0);
}

}  // namespace tessera::runtime

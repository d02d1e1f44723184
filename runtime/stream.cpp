#include "runtime/stream.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/stream_state.hpp"

namespace tessera {

using runtime::check_driver;
using runtime::CurrentContext;

namespace {

void refuse_other_device(const Device& device, void* context) {
    if (context == device.state().context()) return;
    const CurrentContext current(context);
    int index = device.index();
    runtime::driver_api().context_device(&index);
    if (index != device.index())
        throw UsageError(
            fmt::format("the stream given to Stream::external is one of cuda:{}, and the device is {}; give "
                        "Device::cuda({}), or a stream of {}",
                        index, device.spelling(), index, device.spelling()));
}

}  // namespace

Stream Device::stream() const {
    if (is_host()) return Stream::default_of(*this);
    const runtime::DriverApi& api = runtime::driver_api();
    void* const context = state_->context();
    const std::int64_t memory_limit = runtime::stream_memory_limit();
    const CurrentContext current(context);
    void* handle = nullptr;
    check_driver(api.stream_create(&handle, 0), "cuStreamCreate", "make a stream on " + spelling());
    Stream made(*this, handle, context);
    made.state_ = std::make_shared<runtime::StreamState>(*state_, handle, context, runtime::StreamState::Owner::tessera,
                                                         memory_limit);
    return made;
}

Stream Stream::default_of(const Device& device) {
    if (device.is_host()) return Stream(device, nullptr, nullptr);
    Stream made(device, nullptr, device.state().context());
    made.state_ = device.state().default_stream();
    return made;
}

Stream Stream::external(const Device& device, void* handle) {
    if (device.is_host())
        throw UsageError("Stream::external needs a CUDA device; the host has only Stream::default_of(device)");
    if (!handle) return default_of(device);
    const runtime::DriverApi& api = runtime::driver_api();
    const CurrentContext current(device.state().context());
    void* context = nullptr;
    check_driver(api.stream_context(handle, &context), "cuStreamGetCtx", "use the stream given to Stream::external");
    refuse_other_device(device, context);
    return Stream(device, handle, context);
}

void Stream::synchronize() const {
    if (device_.is_host()) return;
    runtime::driver_api();
    const CurrentContext current(context_);
    device_.state().reports().synchronize(handle_);
}

bool Stream::is_capturing() const {
    if (device_.is_host()) return false;
    runtime::driver_api();
    const CurrentContext current(context_);
    return runtime::is_capturing(handle_);
}

}  // namespace tessera

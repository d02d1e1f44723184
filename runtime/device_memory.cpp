#include "runtime/device_memory.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/ask_for_memory.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/fork_guard.hpp"
#include "runtime/stream_state.hpp"

namespace tessera::runtime {

namespace {

/// How memory was taken.
struct Taken {
    std::uint64_t capture;  // that its stream was in; 0: none
    int context_number;
    std::int64_t kept_size;  // as which its stream keeps it; 0: it goes to the driver
};

/// Gives memory back in stream order, without a throw. Memory of a capture is its graph's: it goes back within the
/// capture, or with the graph. A captured stream refuses all other memory, which then waits for the next request.
void give_to_driver(DriverPointer address, const Stream& stream, std::uint64_t capture) noexcept {
    try {
        const CurrentContext current(stream.context());
        const bool captured = is_capturing(stream.handle());
        const bool takes = capture == 0 ? !captured : captured && capture_of(stream.handle()) == capture;
        if (takes && driver().api.free(address, stream.handle()) == driver_code::success) return;
        if (capture == 0)
            stream.device().state().free_later({address, stream.handle(), stream.context(), stream.state()});
    } catch (...) {
        // The driver has shut down and took the memory along.
    }
}

void give_back(DriverPointer address, const Stream& stream, const Taken& taken) noexcept {
    if (forked_after_use() || taken.context_number != stream.device().state().context_number()) return;
    if (taken.kept_size == 0) return give_to_driver(address, stream, taken.capture);
    // Though the stream may be captured just now: while it is, nothing is taken from what it keeps.
    StreamMemory& memory = stream.state()->memory;
    while (!memory.keep({address, taken.kept_size}))
        if (const std::optional<Piece> oldest = memory.let_go_of_oldest()) give_to_driver(oldest->address, stream, 0);
}

DriverPointer from_driver(const Stream& stream, std::int64_t bytes) {
    const DriverApi& api = driver().api;
    DeviceState& state = stream.device().state();
    DriverPointer address = 0;
    const DriverResult result = ask_for_memory(
        [&] { return api.allocate(&address, static_cast<std::size_t>(bytes), state.memory_pool(), stream.handle()); },
        [&] { state.release_stream_memory(); });
    if (result != driver_code::success)
        check_driver(result, "cuMemAllocFromPoolAsync",
                     fmt::format("take {} bytes on {}", bytes, stream.device().spelling()));
    return address;
}

}  // namespace

std::shared_ptr<void> device_memory(const Stream& stream, std::int64_t bytes) {
    driver_api();
    DeviceState& state = stream.device().state();
    const CurrentContext current(stream.context());
    // A stream made elsewhere may end without Tessera's knowing, and a graph owns what was taken in its capture.
    Taken taken{capture_of(stream.handle()), state.context_number(), 0};
    if (taken.capture == 0) {
        state.free_pending();
        if (stream.state() && !stream.state()->is_gone()) taken.kept_size = stream.state()->memory.size_for(bytes);
    }
    DriverPointer address = 0;
    if (taken.kept_size > 0) address = stream.state()->memory.take(taken.kept_size);
    if (address == 0) address = from_driver(stream, taken.kept_size > 0 ? taken.kept_size : bytes);
    return std::shared_ptr<void>(reinterpret_cast<void*>(address), [stream, taken](void* memory) {
        give_back(reinterpret_cast<DriverPointer>(memory), stream, taken);
    });
}

}  // namespace tessera::runtime

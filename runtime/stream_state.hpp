#pragma once

#include "runtime/stream_memory.hpp"

namespace tessera::runtime {

struct DeviceState;

/// What the copies of a Stream of Tessera's share. The last of them destroys a stream that Device::stream made, after
/// its memory has gone back to the driver.
class StreamState {
public:
    enum class Owner : std::uint8_t { tessera, driver };

    /// `context` is the device's primary one. Errors: UsageError for a wrong TESSERA_MEMORY_CACHE.
    StreamState(DeviceState& device, void* handle, void* context, int context_number, Owner owner);
    ~StreamState();
    StreamState(const StreamState&) = delete;
    StreamState& operator=(const StreamState&) = delete;

    /// Gives the memory that waits to the driver, unless the stream is captured, which allows that for none but the
    /// capture's own.
    void release_memory() noexcept;

    StreamMemory memory;

private:
    bool is_gone() const;

    DeviceState& device_;
    void *const handle_, *const context_;
    const int context_number_;
    const Owner owner_;
};

}  // namespace tessera::runtime

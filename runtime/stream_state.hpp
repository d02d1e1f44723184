#pragma once

#include "runtime/stream_memory.hpp"

namespace tessera::runtime {

struct DeviceState;

/// What the copies of a Stream of Tessera's share. The last of them destroys a stream that Device::stream made, after
/// its memory has gone back to the driver.
class StreamState {
public:
    enum class Owner : std::uint8_t { tessera, driver };

    /// `context` is the device's primary one. `memory_limit`: see StreamMemory.
    StreamState(DeviceState& device, void* handle, void* context, Owner owner, std::int64_t memory_limit);
    ~StreamState();
    StreamState(const StreamState&) = delete;
    StreamState& operator=(const StreamState&) = delete;

    /// Gives the memory that waits to the driver, unless the stream is captured, which allows that for none but the
    /// capture's own.
    void release_memory() noexcept;

    /// True if stream and memory are none of this process's, or went with their context.
    bool is_gone() const;

    StreamMemory memory;

private:
    DeviceState& device_;
    void *const handle_, *const context_;
    const int context_number_;
    const Owner owner_;
};

/// TESSERA_MEMORY_CACHE. Errors: UsageError if it is no number of bytes.
std::int64_t stream_memory_limit();

}  // namespace tessera::runtime

#pragma once

#include <memory>

#include "runtime/device.hpp"

namespace tessera {

namespace runtime {
class StreamState;
}

/// A queue of work of one device. On the host, work is done before the call returns. Copies share the queue.
class Stream {
public:
    /// The device's default stream (CUDA: the legacy one, ordered with all streams made by Device::stream).
    static Stream default_of(const Device& device);
    /// A CUstream or cudaStream_t made elsewhere, of any context of that GPU. The caller keeps it alive.
    /// Errors: UsageError on a host device, for a stream of another GPU, or if the driver does not know the handle.
    static Stream external(const Device& device, void* handle);

    const Device& device() const { return device_; }
    /// The CUstream; null for a default stream and on the host.
    void* handle() const { return handle_; }
    /// Waits until all work given so far is done. Errors: UsageError when a kernel failed, and when one reported bad
    /// data: once, by the next synchronisation of its stream, or of the default stream, which waits for all. A captured
    /// launch's report comes with the next synchronisation of any stream.
    void synchronize() const;
    /// True between the begin and the end of a graph capture of this stream.
    bool is_capturing() const;

    void* context() const { return context_; }
    /// What copies of a stream of Tessera's share; null for streams made elsewhere and on the host.
    const std::shared_ptr<runtime::StreamState>& state() const { return state_; }

private:
    friend class Device;
    Stream(const Device& device, void* handle, void* context) : device_(device), handle_(handle), context_(context) {}

    Device device_;
    void* handle_;
    void* context_;
    std::shared_ptr<runtime::StreamState> state_;
};

}  // namespace tessera

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dsl/base/target.hpp"
#include "runtime/device.hpp"
#include "runtime/reports.hpp"
#include "runtime/stream_state.hpp"

namespace tessera {
class Engine;
}

namespace tessera::runtime {

/// What a Device points to. Never destroyed: tensors and streams of static objects may outlive main.
struct DeviceState {
    int index = -1;  // of the GPU; −1: host

private:  // what launches and tensors read is together
    std::atomic<int> context_number_{0};
    std::atomic<Engine*> engine_{nullptr};
    std::atomic<void*> pool_{nullptr};      // of the context there is now
    std::atomic<bool> has_pending_{false};  // spares the lock where nothing waits

public:
    std::string name;
    std::string spelling;
    Target target;

    /// The GPU's primary context, the one that other libraries of the process use. Retained at the first call, which
    /// takes the driver about 0.1 s, and anew after somebody reset it.
    void* context();
    /// How often it was made. What belongs to an earlier one went with that, though the new one may have its address.
    int context_number() const { return context_number_; }
    /// Tessera's own pool of stream-ordered memory; keeps what is freed, so that allocating again costs under 1 µs.
    void* memory_pool();
    /// Of the context there is now; it never ends.
    std::shared_ptr<StreamState> default_stream();
    Engine& engine() {
        Engine* const ready = engine_.load(std::memory_order_acquire);
        return ready ? *ready : make_engine();
    }
    /// What kernels on this GPU report. Errors: as driver_api().
    Reports& reports();

    /// Memory whose free was refused, because its stream was captured just then; freed with the next request.
    struct Pending {
        std::uint64_t address;
        void *stream, *context;
        std::shared_ptr<StreamState> keep;
    };
    void free_later(Pending pending);
    void free_pending();

    /// Streams whose memory is asked for when the driver has no more.
    void add_stream(StreamState& stream);
    void remove_stream(StreamState& stream);
    void release_stream_memory();

private:
    Engine& make_engine();

    std::once_flag engine_once_, reports_once_;
    std::mutex context_mutex_, pool_mutex_;
    void* context_ = nullptr;
    std::unique_ptr<Reports> reports_;
    std::shared_ptr<StreamState> default_stream_;
    std::mutex streams_mutex_;
    std::vector<StreamState*> streams_;
    std::mutex pending_mutex_;
    std::vector<Pending> pending_;
};

/// True if `stream` is captured. Does not disturb the capture.
bool is_capturing(void* stream);

/// Number of the capture that `stream` is in; 0: none.
std::uint64_t capture_of(void* stream);

}  // namespace tessera::runtime

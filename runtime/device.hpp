#pragma once

#include <string>
#include <string_view>

#include "dsl/base/target.hpp"

namespace tessera {

namespace runtime {
struct DeviceState;
}
class Stream;

/// Where kernels run and tensors lie: a CUDA GPU, or the host, which runs the program lowered for a named target.
/// A cheap value; equal devices compare equal.
class Device {
public:
    /// The host as H200.
    Device();

    /// cuda:0 if the driver works and the GPU is one that Tessera compiles for (SM90, SM100), else the host as H200.
    /// Errors: UsageError in a process forked after its parent had used the GPU.
    static Device best();
    /// GPU `index` in the driver's order. Errors: UsageError saying what is missing (driver, GPU, architecture).
    static Device cuda(int index);
    static Device host(const Target& target = Target::h200());
    /// "host", "host:sm_100a", "cuda", "cuda:1", "best". Errors: UsageError for anything else.
    static Device parse(std::string_view text);

    bool is_host() const;
    /// Ordinal of the GPU; −1 on the host.
    int index() const;
    /// "NVIDIA H200", "host (as H200)".
    const std::string& name() const;
    /// "cuda:0", "host".
    const std::string& spelling() const;
    /// What kernels are lowered and compiled for.
    const Target& target() const;
    /// A new stream of this device. It is ordered with the default stream, as CUDA's blocking streams are.
    Stream stream() const;

    /// Hosts as different targets are different devices, yet share memory: see `shares_memory`.
    friend bool operator==(const Device& a, const Device& b) { return a.state_ == b.state_; }
    /// True if a kernel on this device can use tensors of the other: the same GPU, or both hosts.
    bool shares_memory(const Device& other) const { return state_ == other.state_ || both_are_host(other); }

    runtime::DeviceState& state() const { return *state_; }

private:
    explicit Device(runtime::DeviceState* state) : state_(state) {}
    bool both_are_host(const Device& other) const;
    runtime::DeviceState* state_;  // lives as long as the process
};

}  // namespace tessera

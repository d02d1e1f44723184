#include "runtime/device.hpp"

#include <charconv>
#include <deque>
#include <fmt/format.h>
#include <mutex>

#include "dsl/base/error.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/fork_guard.hpp"

namespace tessera {

namespace {

using runtime::DeviceState;

bool same(const Target& a, const Target& b) {
    return a.sm == b.sm && a.multiprocessors == b.multiprocessors && a.l2_bytes == b.l2_bytes &&
           a.shared_bytes == b.shared_bytes;
}

std::string host_name(const Target& target) {
    if (same(target, Target::h200())) return "host (as H200)";
    if (same(target, Target::b200())) return "host (as B200)";
    return fmt::format("host (as {} with {} multiprocessors)", target.arch(), target.multiprocessors);
}

DeviceState* host_state(const Target& target) {
    static std::mutex mutex;
    static auto& hosts = *new std::deque<DeviceState>;
    const std::lock_guard lock(mutex);
    for (DeviceState& host : hosts)
        if (same(host.target, target)) return &host;
    DeviceState& host = hosts.emplace_back();
    host.target = target;
    host.name = host_name(target);
    host.spelling = "host";
    return &host;
}

int attribute(const runtime::DriverApi& api, int which, int device) {
    int value = 0;
    api.device_attribute(&value, which, device);
    return value;
}

/// The GPUs, in the driver's order; the capability of one that Tessera cannot use leaves target.sm at 0.
struct Gpus {
    std::deque<DeviceState> states;
    std::deque<int> capability;  // 10 · major + minor
};

const Gpus& gpus() {
    static Gpus& all = *[] {
        auto* found = new Gpus;
        const runtime::Driver& d = runtime::driver();
        for (int i = 0; d.usable && i < d.device_count; ++i) {
            int device = 0;
            char name[256] = {};
            d.api.device_get(&device, i);
            d.api.device_name(name, sizeof name - 1, device);
            DeviceState& state = found->states.emplace_back();
            state.index = i;
            state.name = name;
            state.spelling = fmt::format("cuda:{}", i);
            const int capability = 10 * attribute(d.api, runtime::attribute_capability_major, device) +
                                   attribute(d.api, runtime::attribute_capability_minor, device);
            found->capability.push_back(capability);
            state.target.sm = capability == 90 || capability == 100 ? capability : 0;
            state.target.multiprocessors = attribute(d.api, runtime::attribute_multiprocessors, device);
            state.target.l2_bytes = attribute(d.api, runtime::attribute_l2_bytes, device);
            state.target.shared_bytes = attribute(d.api, runtime::attribute_shared_bytes, device);
        }
        return found;
    }();
    return all;
}

int parse_index(std::string_view text, std::string_view digits) {
    int index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size() || index < 0)
        throw UsageError(fmt::format("device \"{}\" has no number after the colon; write cuda:0", text));
    return index;
}

}  // namespace

Device::Device() {
    static DeviceState* const h200 = host_state(Target::h200());  // views are made on the way to every launch
    state_ = h200;
}

Device Device::best() {
    runtime::refuse_if_forked();
    if (!runtime::driver().usable || gpus().states.front().target.sm == 0) return host();
    return cuda(0);
}

Device Device::cuda(int index) {
    runtime::driver_api();
    const Gpus& all = gpus();
    const int count = static_cast<int>(all.states.size());
    if (index < 0 || index >= count)
        throw UsageError(fmt::format("there is no cuda:{}: the driver sees {} GPU{}, cuda:0 to cuda:{}", index, count,
                                     count == 1 ? "" : "s", count - 1));
    const DeviceState& state = all.states[static_cast<std::size_t>(index)];
    if (state.target.sm == 0) {
        const int capability = all.capability[static_cast<std::size_t>(index)];
        throw UsageError(
            fmt::format("cuda:{} ({}) has compute capability {}.{}; Tessera compiles for 9.0 (sm_90a) and 10.0 "
                        "(sm_100a); Device::host() runs the same kernels on the CPU",
                        index, state.name, capability / 10, capability % 10));
    }
    return Device(const_cast<DeviceState*>(&state));
}

Device Device::host(const Target& target) { return Device(host_state(target)); }

Device Device::parse(std::string_view text) {
    if (text == "best") return best();
    if (text == "host" || text == "host:sm_90a") return host();
    if (text == "host:sm_100a") return host(Target::b200());
    if (text == "cuda") return cuda(0);
    if (text.starts_with("cuda:")) return cuda(parse_index(text, text.substr(5)));
    throw UsageError(fmt::format(
        "there is no device \"{}\"; there are \"best\", \"host\", \"host:sm_100a\", \"cuda\" and \"cuda:<number>\"",
        text));
}

bool Device::is_host() const { return state_->index < 0; }
int Device::index() const { return state_->index; }
const std::string& Device::name() const { return state_->name; }
const std::string& Device::spelling() const { return state_->spelling; }
const Target& Device::target() const { return state_->target; }

bool Device::both_are_host(const Device& other) const { return is_host() && other.is_host(); }

}  // namespace tessera

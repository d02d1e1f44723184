#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace tessera::host {

/// The mbarriers of a block by their bytes in shared memory. A phase is complete when its arrivals have come and the
/// bytes counted in it have; these come at once.
class Mbarriers {
public:
    void clear() { states_.clear(); }
    void start(std::size_t byte, int arrivals) { states_[byte] = {arrivals, 0, 0}; }
    /// True if that completes the present phase.
    bool arrive(std::size_t byte, int arrivals) {
        State& s = states_[byte];
        s.arrived += arrivals;
        if (s.arrived < s.expected) return false;
        s.arrived -= s.expected;
        ++s.phase;
        return true;
    }
    /// Whether the phase of this parity is complete, and the present one is the next.
    bool complete(std::size_t byte, std::int64_t parity) {
        return static_cast<std::int64_t>(states_[byte].phase & 1) != parity;
    }

private:
    struct State {
        int expected = 1, arrived = 0;
        std::uint64_t phase = 0;  // that is going on
    };
    std::map<std::size_t, State> states_;
};

}  // namespace tessera::host

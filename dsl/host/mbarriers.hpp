#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace tessera::host {

/// The mbarriers of a block by their bytes in shared memory. A phase is complete when its one arrival has come and the
/// bytes counted in it have; these come at the latest when somebody waits.
class Mbarriers {
public:
    void clear() { states_.clear(); }
    void start(std::size_t byte) { states_[byte] = {}; }
    void arrive(std::size_t byte) {
        State& s = states_[byte];
        if (s.arrived) ++s.phase;
        s.arrived = true;
    }
    /// Whether the phase of this parity is complete, and the present one is the next.
    bool complete(std::size_t byte, int parity) {
        State& s = states_[byte];
        if (s.arrived) ++s.phase;
        s.arrived = false;
        return static_cast<int>(s.phase & 1) != parity;
    }

private:
    struct State {
        bool arrived = false;     // in the present phase
        std::uint64_t phase = 0;  // that is going on
    };
    std::map<std::size_t, State> states_;
};

}  // namespace tessera::host

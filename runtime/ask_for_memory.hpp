#pragma once

#include "runtime/driver/api.hpp"

namespace tessera::runtime {

/// What the driver answers to `ask`, which wants memory of it. Where it has none, `make_room` gives back what is kept
/// for later, and it is asked once more.
template <class Ask, class MakeRoom>
DriverResult ask_for_memory(Ask&& ask, MakeRoom&& make_room) {
    const DriverResult result = ask();
    if (result != driver_code::out_of_memory) return result;
    make_room();
    return ask();
}

}  // namespace tessera::runtime

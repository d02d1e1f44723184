#pragma once

#include <span>
#include <vector>

#include "bench/cupti/recorder.hpp"

namespace tessera::bench::cupti {

/// Microseconds in which the GPU worked on each of so many like launches, given in order of their begin: what runs at
/// once counts once, and gaps do not count. Empty if the activities are not as many for each launch.
std::vector<double> busy_times(std::span<const Activity> activities, int launches);

}  // namespace tessera::bench::cupti

#pragma once

#include <string>

#include "runtime/stream.hpp"

namespace tessera::bench {

/// Host microseconds of per_token_cast, medians over many short bursts into an empty queue; all of one run.
struct LaunchCost {
    double bare = 0;        // the driver's own launch of the same kernel, its arguments in place
    double given = 0;       // the public function, into given outputs, where the GPU's context is current
    double elsewhere = 0;   // the same on a thread where no context is current: it is pushed and popped
    double allocating = 0;  // the same with outputs of its own, which are kept
    double dropping = 0;    // and dropped at once
    double any = 0;         // the driver's own launch by a CUkernel, which is good for all contexts
    double asking = 0;      // the same after cuCtxGetCurrent: what no launch of the library can be under
};

/// Errors: UsageError on a host device: there is no driver call to compare with.
LaunchCost launch_cost(const Stream& stream);

std::string launch_cost_text(const LaunchCost& cost);

}  // namespace tessera::bench

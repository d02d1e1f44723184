#pragma once

#include <functional>
#include <vector>

#include "runtime/stream.hpp"

namespace tessera::bench {

/// Microseconds of one launch, measured without what the host or the graph costs: graphs of a few and of many launches
/// are replayed, and their difference is divided by the launches between them. One sample for each pair of replays.
/// Needs the stream's context to be current. Errors: UsageError when the driver fails.
std::vector<double> times_by_replays(const Stream& stream, const std::function<void(int)>& launch);

}  // namespace tessera::bench

#pragma once

#include <cstdint>
#include <memory>

#include "runtime/stream.hpp"

namespace tessera::runtime {

/// `bytes` > 0 of memory of the stream's GPU, good for what is given to the stream from now on, and given back in its
/// order. Streams of Tessera's keep some of what is given back for their next request (TESSERA_MEMORY_CACHE). Errors:
/// UsageError when memory is out.
std::shared_ptr<void> device_memory(const Stream& stream, std::int64_t bytes);

}  // namespace tessera::runtime

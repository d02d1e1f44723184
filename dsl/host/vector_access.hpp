#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::host {

/// One load or store of every thread: thread t moves `lanes` consecutive elements at base + offset[t] elements.
struct VectorAccess {
    std::byte* base;
    const std::int64_t* offset;
    const std::uint32_t* predicate;  // null: every thread takes part
    const void* fill;                // of a load under a predicate: what the others get
    void* const* lanes;              // a register for each element
    int count;
    std::size_t threads;
};

using AccessFunction = void (*)(const VectorAccess&);

/// Element sizes are 1, 2, 4 and 8 bytes; null for others.
AccessFunction load_function(int element_bytes, int lanes);
AccessFunction store_function(int element_bytes, int lanes);

}  // namespace tessera::host

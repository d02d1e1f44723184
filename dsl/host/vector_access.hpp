#pragma once

#include <cstddef>
#include <cstdint>

#include "dsl/base/element.hpp"

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

/// Null where there is no such access: e2m1 moves 2, 4, 8, 16 or 32 elements at once and e5m6 8, 16 or 32; others up to
/// 32.
AccessFunction load_function(Element type, int lanes);
AccessFunction store_function(Element type, int lanes);

/// base[offset] += the lane, atomically against other workers; null but for integers of 32 or 64 bits.
AccessFunction add_function(Element type);

/// The same for the types whose elements share bytes; null for others.
AccessFunction packed_load_function(Element type, int lanes);
AccessFunction packed_store_function(Element type, int lanes);

/// Bytes of `lanes` elements, a multiple of packed_elements_of(type), side by side in memory.
constexpr int bytes_of(Element type, int lanes) { return lanes * bits_of(type) / 8; }

}  // namespace tessera::host

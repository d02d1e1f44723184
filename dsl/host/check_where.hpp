#pragma once

#include <fmt/format.h>
#include <string>

#include "dsl/host/check.hpp"

namespace tessera::host {

struct AccessChecker::Where {
    const AccessInfo& info;
    const VectorAccess& access;
    const std::int64_t* const* coordinates;
    std::size_t lane_of_role;  // index into the registers
    int thread;                // of the block

    std::int64_t coordinate(int axis) const { return coordinates[axis][lane_of_role]; }
    std::int64_t offset() const { return access.offset[lane_of_role]; }
    int extent_of(int axis) const { return axis == info.axis ? info.lanes : 1; }
    bool global() const { return info.space == ir::Space::global; }
    std::size_t memory() const { return static_cast<std::size_t>(info.memory); }
    std::int64_t bytes() const { return bytes_of(info.type, info.lanes); }
    std::int64_t byte_offset() const {  // from the memory's base
        const int packed = packed_elements_of(info.type);
        return offset() / packed * bytes_of(info.type, packed);
    }
};

inline std::string place_text(const Place& place) { return fmt::format("{}:{}", place.file, place.line); }

}  // namespace tessera::host

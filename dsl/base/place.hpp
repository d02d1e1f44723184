#pragma once

#include <cstdint>
#include <source_location>

namespace tessera {

/// Where a node was written: the kernel writer's own file and line.
struct Place {
    const char* file = "";
    const char* function = "";
    std::uint32_t line = 0;

    Place() = default;
    Place(const std::source_location& at) : file(at.file_name()), function(at.function_name()), line(at.line()) {}
};

}  // namespace tessera

#pragma once

#include <string>

#include "dsl/base/place.hpp"

namespace tessera::ir {

/// Why teams of threads that run by themselves, the roles or the warps of a block, cannot do what they are given.
/// `text` is a sentence for the kernel's writer.
struct TeamFault {
    const char* rule;
    Place place;
    std::string text;
};

}  // namespace tessera::ir

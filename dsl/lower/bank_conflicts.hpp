#pragma once

#include <string>
#include <vector>

#include "dsl/ir/program.hpp"

namespace tessera::lower {

/// One shared access of a lowered program, as the lanes of the first warp make it.
struct SharedAccess {
    Place place;
    std::string tile;
    bool store;
    int bytes;    // of one lane
    int lanes;    // that take part
    int passes;   // that the memory needs for the warp
    int at_best;  // passes without a conflict
};

/// Every shared access in program order, loops at their first turn. A pass serves one word of 4 bytes from each of 32
/// banks; lanes that read one word share it.
std::vector<SharedAccess> bank_conflicts(const ir::Program& lowered);

}  // namespace tessera::lower

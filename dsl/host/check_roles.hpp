#pragma once

#include <vector>

#include "dsl/ir/program.hpp"

namespace tessera::host {

/// By tensor of a lowered program: whether several of its roles store to it.
std::vector<bool> stored_by_roles(const ir::Program& program);

}  // namespace tessera::host

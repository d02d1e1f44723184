#pragma once

#include <string>

#include "dsl/emit/expression.hpp"

namespace tessera::emit {

/// `extern "C" __global__ … name(parameters)`, one parameter a line with its element type and extents as a comment.
std::string signature(const ir::Program& program, const Names& names, Expressions& expressions);

/// One comment line: name, block size, grid, architecture.
std::string headline(const ir::Program& program, const Target& target, Expressions& expressions);

}  // namespace tessera::emit

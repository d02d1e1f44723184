#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::ir {

/// True if the programs are the same but for places (files, lines) and node ids: two recordings of one function are
/// equal. Sharing counts: a value bound once and used twice is not equal to two values that look alike.
bool equal(const Program& a, const Program& b);

}  // namespace tessera::ir

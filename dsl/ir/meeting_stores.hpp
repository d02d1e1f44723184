#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::ir {

/// Recorded: the stores to tensors that a role makes whatever its data: in no condition, and in loops that may turn.
std::vector<const Statement*> sure_stores(const Body& role);

/// Whether two such stores of two roles of one block surely meet in an element of their tensor, by the offsets that
/// they have in the first turn of their loops. False also where nothing is known.
bool surely_meet(const Program& program, const Store& a, const Store& b);

}  // namespace tessera::ir

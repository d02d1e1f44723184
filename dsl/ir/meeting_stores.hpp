#pragma once

#include "dsl/ir/program.hpp"

namespace tessera::ir {

/// Recorded: the stores to tensors that a role makes whatever its data, if its loops turn at all: in no condition, and
/// in loops whose numbers do not say that they never turn.
std::vector<const Statement*> sure_stores(const Body& role);

/// Whether two such stores of two roles of one block meet in an element of their tensor, by the offsets that they have
/// in the first turn of their loops. False also where nothing is known.
bool surely_meet(const Program& program, const Store& a, const Store& b);

}  // namespace tessera::ir

#pragma once

#include "tests/support/programs/pool.hpp"

namespace tessera::test {

// Single steps of a random program that need no memory: each takes operands from the pool, and adds its result; one
// that finds no operands does nothing.

/// A floating-point item brought into [−limit, limit], if it may lie outside.
Item clamped(const Item& item, double limit);

void step_arithmetic(Random& random, Pool& pool);
void step_select(Random& random, Pool& pool);
void step_cast(Random& random, Pool& pool);
void step_bitcast(Random& random, Pool& pool);
/// Codes of e2m1 looked up in a table whose entries are shared by the tile, by lines of it, or by nobody.
void step_lookup(Random& random, Pool& pool);
void step_reduce(Random& random, Pool& pool);
/// For programs of one warp.
void step_top_k(Random& random, Pool& pool);
void step_broadcast(Random& random, Pool& pool);
void step_reshape(Random& random, Pool& pool);
void step_permute(Random& random, Pool& pool);
void step_coordinate(Random& random, Pool& pool);

}  // namespace tessera::test

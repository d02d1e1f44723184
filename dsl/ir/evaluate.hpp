#pragma once

#include <cstdint>
#include <span>

#include "dsl/ir/node.hpp"

namespace tessera::ir {

/// The value of one loop counter, for `evaluate`.
struct Counter {
    int loop;
    std::int64_t value;
};

/// Value of a rank-0 expression over constants, Program::scalars and loop counters, in the encoding of
/// `expression->type`: integers in two's complement of their width, f32 by its bits, booleans 0 or 1; the bits above
/// the width are 0. The arguments may have anything above their width. Integers wrap; a shift takes the count modulo
/// the width; casts are those of convert_bits. Allocates nothing; a shared operand is evaluated
/// once for each use. Errors: UsageError with the node's line for an integer division by zero; InternalError for an
/// expression that depends on anything else (a thread, a tile, a counter that is not given) or has another type than
/// integers, f32 and boolean.
std::uint64_t evaluate(Ref expression, std::span<const std::uint64_t> scalars, std::span<const Counter> counters = {});

/// The same as a signed number: integers sign- or zero-extended by their type. Errors: also InternalError for f32.
std::int64_t evaluate_integer(Ref expression, std::span<const std::uint64_t> scalars,
                              std::span<const Counter> counters = {});

}  // namespace tessera::ir

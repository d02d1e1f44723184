#pragma once

#include <cstdint>
#include <vector>

#include "dsl/ir/program.hpp"
#include "dsl/ir/report.hpp"

namespace tessera::test {

/// Runs a recorded program block after block, every tile as one array of elements in row-major order: no threads, no
/// layouts, no lowering. Written from the meaning of the nodes alone, as the measure for both back ends.
/// Gives the first offender that the program reports. `tensors` are base addresses in the order of Program::tensors;
/// `scalars` those of Program::scalars (floats by bits).
ir::Offender evaluate(const ir::Program& recorded, const std::vector<void*>& tensors,
                      const std::vector<std::uint64_t>& scalars);

}  // namespace tessera::test

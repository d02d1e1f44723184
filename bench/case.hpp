#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/stream.hpp"

namespace tessera::bench {

/// One row of the benchmark.
struct Case {
    std::string kernel;
    std::string name;    // the options, as bench/reference.json spells them
    std::int64_t bytes;  // that the algorithm must move
    /// Makes `sets` sets of inputs and outputs and gives what launches the kernel on set i mod sets.
    std::function<std::function<void(int)>(const Stream&, int sets)> prepare;
};

std::vector<Case> quant_cases();
std::vector<Case> transpose_cases();

}  // namespace tessera::bench

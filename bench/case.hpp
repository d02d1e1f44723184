#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dsl/front/program.hpp"
#include "runtime/stream.hpp"

namespace tessera::bench {

/// One row of the benchmark.
struct Case {
    std::string kernel;
    std::string name;    // the options, as bench/reference.json spells them where it has the case
    std::int64_t bytes;  // that the algorithm must move
    /// Makes `sets` sets of inputs and outputs and gives what launches the kernel on set i mod sets.
    std::function<std::function<void(int)>(const Stream&, int sets)> prepare;
    /// The kernel's recording, for its registers and compile time; may be empty.
    std::function<Program()> program = {};
    std::int64_t elements = 0;  // values of the input; for speeds of the host executor
};

struct Category {
    std::string name;
    std::vector<Case> (*cases)();
};
/// All categories, in the order of the table.
const std::vector<Category>& categories();

std::vector<Case> channel_cases();
std::vector<Case> engram_cases();
std::vector<Case> mhc_cases();
void add_mhc_norm_cases(std::vector<Case>& cases);  // to those of the last
std::vector<Case> gate_cases();
std::vector<Case> moe_cases();
std::vector<Case> quant_cases();
std::vector<Case> swiglu_cases();
std::vector<Case> transpose_cases();

}  // namespace tessera::bench

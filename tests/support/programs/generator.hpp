#pragma once

#include <cstdint>
#include <vector>

#include "dsl/front/program.hpp"

namespace tessera::test {

/// A random small kernel with the arguments of one launch.
struct ProgramCase {
    Program program;
    std::vector<std::uint64_t> scalars;
    /// Contents before the launch: inputs hold small whole numbers, outputs a sentinel. The base of a tensor must be
    /// aligned as Program::tensors says.
    std::vector<std::vector<std::uint8_t>> tensors;
};

/// The same program for the same seed. Sums run over whole numbers small enough to be exact in any order, nothing
/// overflows to infinity and no value is NaN, so that equal bits may be asked of every way to run it.
ProgramCase random_program(std::uint64_t seed);

}  // namespace tessera::test

#pragma once

#include <string>
#include <vector>

#include "dsl/ir/program.hpp"

namespace tessera::test {

/// A lowered program with one fault.
struct Mutant {
    std::string fault;  // what was taken away, and the writer's line
    ir::Program program;
};

/// Every program that lacks a single safeguard of `lowered`: one barrier; the predicate of one access; one side of one
/// conjunction of masks; one select, by either of its values.
std::vector<Mutant> mutants_of(const ir::Program& lowered);

}  // namespace tessera::test

#pragma once

#include <string>
#include <vector>

#include "dsl/ir/program.hpp"

namespace tessera::test {

/// A lowered program with one fault.
struct Mutant {
    std::string fault;  // what was taken away, and the writer's line
    ir::Program program;
    std::vector<ir::Ref> lost = {};      // masks that are now taken as true: nothing has changed if they all are
    std::vector<ir::Ref> unneeded = {};  // nothing has changed either if one of these is always false
};

/// Every program that lacks a single safeguard of `lowered`: one barrier or grid sync; the predicate of one access; one
/// side of one conjunction of masks; one select, by either of its values.
std::vector<Mutant> mutants_of(const ir::Program& lowered);

}  // namespace tessera::test

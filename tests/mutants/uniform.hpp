#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dsl/ir/program.hpp"

namespace tessera::test {

/// The numbers of one launch, by the names of Program::scalars.
using Numbers = std::map<std::string, std::int64_t>;

/// Masks of a lowered program that no launch of a list can tell from true: those that are the same for all threads of a
/// block, and true (or false) in every block of every launch; and those that only pick one of several threads that hold
/// the same value.
class Masks {
public:
    Masks(const ir::Program& lowered, const std::vector<Numbers>& launches);

    /// Looks at nothing but the thread's index.
    bool picks_a_copy(ir::Ref mask) const;
    bool always(ir::Ref mask, bool value) const;

private:
    bool evaluate(ir::Ref node, const std::vector<std::uint64_t>& scalars, std::int64_t block,
                  std::uint64_t& value) const;

    const ir::Program& program_;
    std::map<int, ir::Ref> locals_;
    std::vector<std::vector<std::uint64_t>> scalars_;
};

}  // namespace tessera::test

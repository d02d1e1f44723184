#pragma once

#include <vector>

#include "dsl/ir/program.hpp"

namespace tessera::ir {

/// Which values of a lowered program are the same in every thread of a block: what no thread index reaches, through
/// registers, predicates and loop bounds either. Loads at uniform addresses are uniform.
class Uniformity {
public:
    explicit Uniformity(const Program& lowered);

    bool uniform(Ref value) const;
    /// Whether all threads make the same number of turns.
    bool uniform_loop(int loop) const { return loops_[static_cast<std::size_t>(loop)]; }

private:
    void spread(const Body& body, bool control);
    void lose(std::vector<bool>& table, int index);

    std::vector<bool> loops_, locals_, arrays_;
    bool changed_ = false;
    mutable std::vector<signed char> memo_;  // by node id: 1 uniform, −1 not, 0 unknown
};

}  // namespace tessera::ir

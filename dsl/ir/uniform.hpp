#pragma once

#include <cstdint>
#include <vector>

#include "dsl/ir/program.hpp"

namespace tessera::ir {

enum class Reach : std::uint8_t { block, warp };

/// Which values of a lowered program are the same in every thread of a block, or of a warp: what no thread index
/// reaches, through registers, predicates and loop bounds either. Loads at uniform addresses are uniform; in a warp,
/// what its lanes have reduced is, and the number of the warp.
class Uniformity {
public:
    explicit Uniformity(const Program& lowered, Reach reach = Reach::block);

    bool uniform(Ref value) const;
    /// Whether all these threads make the same number of turns.
    bool uniform_loop(int loop) const { return loops_[static_cast<std::size_t>(loop)]; }

private:
    void spread(const Body& body, bool control);
    void lose(std::vector<bool>& table, int index);

    Reach reach_;
    std::vector<bool> loops_, locals_, arrays_;
    bool changed_ = false;
    mutable std::vector<signed char> memo_;  // by node id: 1 uniform, −1 not, 0 unknown
};

}  // namespace tessera::ir

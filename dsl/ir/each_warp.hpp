#pragma once

#include <optional>

#include "dsl/ir/program.hpp"
#include "dsl/ir/team_fault.hpp"

namespace tessera::ir {

constexpr int threads_of_warp = 32;

/// The statement whose turns the warps of the block share out; null if it is none.
inline const For* each_warp_of(const Statement& statement) {
    const auto* loop = statement.as<For>();
    return loop && loop->each_warp ? loop : nullptr;
}

/// Whether warps run by themselves somewhere in the program.
bool has_each_warp(const Program& program);

/// Why the warps of a program, of either stage, cannot run a body by themselves; the first fault: one inside another or
/// in a role, something in it that all warps of a block must come to, variables or registers that it shares with them.
std::optional<TeamFault> find_each_warp_fault(const Program& program);

}  // namespace tessera::ir

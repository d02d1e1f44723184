#pragma once

#include <optional>

#include "dsl/ir/program.hpp"
#include "dsl/ir/team_fault.hpp"

namespace tessera::ir {

/// Registers that a thread of a program with budgets has when the kernel starts: an equal share of a multiprocessor's,
/// in steps of 8.
int registers_at_launch(const Program& program);

/// The statement whose body is that of a role; null if it is none.
inline const For* role_of(const Statement& statement) {
    const auto* body = statement.as<For>();
    return body && body->role >= 0 ? body : nullptr;
}

/// Why the roles of a program, of either stage, cannot work together; the first fault: warps and registers that do not
/// fit the block, bodies that do not stand last, a wait for what nobody fills, a wrong number of arrivals, memory or
/// registers that two roles touch and no ring orders. Of stores to one tensor, those that surely meet.
std::optional<TeamFault> find_role_fault(const Program& program);

}  // namespace tessera::ir

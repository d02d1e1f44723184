#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/statement.hpp"
#include "dsl/ir/roles.hpp"

// Roles of warps: who runs a body, with how many registers, and the barriers in it.

namespace tessera::emit {

void Statements::print_role(const ir::For& body) {
    const auto index = static_cast<std::size_t>(body.role);
    require_internal(index < program_.roles.size(), "a role that does not exist");
    const ir::WarpRole& role = program_.roles[index];
    const std::string other = index == 0 ? "" : "else ";
    const bool last = index + 1 == program_.roles.size();
    writer_.open(last && index > 0 ? "else"
                                   : fmt::format("{}if ({}() < {})", other, helpers_.use("warp_of_block"),
                                                 role.first_warp + role.warps));
    writer_.comment(fmt::format("role {}", role.name));
    const int now = ir::registers_at_launch(program_);
    if (role.registers > 0 && role.registers != now)
        writer_.line(fmt::format("{}<{}>();", helpers_.use(role.registers < now ? "fewer_registers" : "more_registers"),
                                 role.registers));
    role_ = &role;
    print(body.body);
    role_ = nullptr;
    writer_.close(role.name);
}

/// Named barrier 0 is the block's.
void Statements::print(const ir::Barrier&) {
    if (each_warp_ || (role_ && role_->warps == 1)) return writer_.line("__syncwarp();");
    if (!role_) return writer_.line("__syncthreads();");
    writer_.line(fmt::format("{}<{}, {}>();", helpers_.use("role_barrier"), role_ - program_.roles.data() + 1,
                             role_->threads()));
}

void Statements::print(const ir::Arrive& arrive) {
    writer_.line(helpers_.use("arrive_by_warps") + "(" + mbarrier(arrive.mbarriers, arrive.stage) + ");");
}

}  // namespace tessera::emit

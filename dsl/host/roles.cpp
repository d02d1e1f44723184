#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/host/machine.hpp"

// Roles and the mbarriers by which they wait for each other.

namespace tessera::host {

void Machine::start_roles() {
    roles_.clear();
    for (std::size_t r = 0; r < code_.role_entries.size(); ++r) {
        const ir::WarpRole& role = launch_.program.roles[r];
        roles_.push_back({code_.role_entries[r], static_cast<std::uint32_t>(role.first_thread()),
                          static_cast<std::uint32_t>(role.threads()), static_cast<int>(r)});
    }
}

void Machine::start_mbarriers(const Instruction& i) {
    const AccessInfo& info = code_.accesses[i.info];
    const std::int64_t count = launch_.program.shared[static_cast<std::size_t>(info.memory)].shape[0];
    for (std::int64_t stage = 0; stage < count; ++stage) mbarriers_.start(mbarrier_byte(info, stage), info.arrivals);
    if (checker_) checker_->start(info);
}

void Machine::arrive(const Instruction& i, const Cursor& cursor) {
    constexpr std::uint32_t warp = 32;
    const AccessInfo& info = code_.accesses[i.info];
    const auto* stage = static_cast<const std::int64_t*>(at(code_.operands[i.operands], cursor));
    const bool all = i.kind == Kind::release;
    const auto first = static_cast<int>(cursor.first), threads = static_cast<int>(all ? cursor.threads : warp);
    if (checker_) checker_->check_mbarrier(info, stage, first, threads);
    const bool completes = mbarriers_.arrive(mbarrier_byte(info, *stage), all ? threads / static_cast<int>(warp) : 1);
    ++meetings_;
    if (checker_) checker_->arrive(info, *stage, first, threads, completes);
}

/// Outside of roles nobody is left to complete it.
bool Machine::phase_complete(const Instruction& i, const Cursor& cursor) {
    const AccessInfo& info = code_.accesses[i.info];
    const Operand* in = code_.operands.data() + i.operands;
    const auto* stage = static_cast<const std::int64_t*>(at(in[0], cursor));
    const auto parity = *static_cast<const std::int64_t*>(at(in[1], cursor));
    const auto first = static_cast<int>(cursor.first), threads = static_cast<int>(cursor.threads);
    if (checker_) checker_->check_mbarrier(info, stage, first, threads);
    if (!mbarriers_.complete(mbarrier_byte(info, *stage), parity)) {
        if (cursor.role < 0 && checker_) checker_->endless_wait(info, *stage, parity);
        return cursor.role < 0;
    }
    ++meetings_;
    if (checker_) checker_->pass(info, *stage, first, threads);
    return true;
}

std::size_t Machine::mbarrier_byte(const AccessInfo& info, std::int64_t stage) const {
    constexpr std::int64_t bytes = 8;
    return static_cast<std::size_t>(launch_.program.shared[static_cast<std::size_t>(info.memory)].byte_offset +
                                    stage * bytes);
}

void Machine::no_role_moves() const {
    std::string who;
    Place place = launch_.program.place;
    for (const Cursor& role : roles_) {
        who += (who.empty() ? "role " : "; role ") + launch_.program.roles[static_cast<std::size_t>(role.role)].name;
        if (role.stop == Stop::finished) {
            who += " is done";
            continue;
        }
        const Instruction& i = code_.instructions[role.next];
        const AccessInfo& info = code_.accesses[i.info];
        const Operand* in = code_.operands.data() + i.operands;
        if (place.line == launch_.program.place.line) place = info.place;
        who += fmt::format(" at {}:{} for {}[{}] to complete its phase of parity {}", info.place.file, info.place.line,
                           launch_.program.shared[static_cast<std::size_t>(info.memory)].name,
                           *static_cast<const std::int64_t*>(at(in[0], role)),
                           *static_cast<const std::int64_t*>(at(in[1], role)));
    }
    throw UsageError(place, fmt::format("kernel '{}': the roles wait for ever in block {}: {}; every ring.use needs a "
                                        "ring.fill, and every fill of a slot in use the uses before it",
                                        launch_.program.name, block_, who));
}

}  // namespace tessera::host

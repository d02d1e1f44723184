#include "dsl/host/check_roles.hpp"

#include "dsl/base/error.hpp"
#include "dsl/host/check_where.hpp"
#include "dsl/ir/each_warp.hpp"
#include "dsl/ir/roles.hpp"
#include "dsl/ir/walk.hpp"

// What the checks know of roles: no two store to one element of a tensor unless a ring orders them; and what a kernel's
// writer can do where something is out of order.

namespace tessera::host {

std::vector<bool> stored_by_roles(const ir::Program& program) {
    std::vector<int> role(program.tensors.size(), -1);
    std::vector<bool> several(program.tensors.size());
    for (const ir::Statement& s : program.body) {
        const ir::For* body = ir::role_of(s);
        if (!body) continue;
        ir::for_each_statement(body->body, [&](const ir::Statement& inner) {
            const auto* store = inner.as<ir::StoreVector>();
            if (!store || store->access.space != ir::Space::global) return;
            const auto tensor = static_cast<std::size_t>(store->access.memory);
            several[tensor] = several[tensor] || (role[tensor] >= 0 && role[tensor] != body->role);
            role[tensor] = body->role;
        });
    }
    return several;
}

int AccessChecker::role_of(int thread) const {
    const auto& roles = launch_.program.roles;
    for (std::size_t r = 0; r < roles.size(); ++r)
        if (thread >= roles[r].first_thread() && thread < roles[r].first_thread() + roles[r].threads())
            return static_cast<int>(r);
    return -1;
}

void AccessChecker::check_roles(const Where& at) {
    if (!at.info.store || at.info.add || !by_roles_[at.memory()]) return;
    const std::int64_t step = bytes_of(at.info.type, packed_elements_of(at.info.type));
    const auto base = reinterpret_cast<std::uintptr_t>(at.access.base);
    const auto touch = history_->now(at.thread, static_cast<std::size_t>(&at.info - code_.accesses.data()));
    for (std::int64_t byte = 0; byte < at.bytes(); byte += step) {
        const auto address = base + static_cast<std::uintptr_t>(at.byte_offset() + byte);
        const auto [known, first] = stores_.try_emplace(address, touch);
        if (first) continue;
        const int role = role_of(at.thread), other = role_of(known->second.thread);
        if (role != other && !history_->ordered(known->second, at.thread))
            throw UsageError(
                at.info.place,
                fmt::format("kernel '{}': {} by role {} meets the store of role {} at {}, and nothing orders the two "
                            "({}); store in one of the roles, or give each a part of its own",
                            launch_.program.name, describe(at),
                            launch_.program.roles[static_cast<std::size_t>(role)].name,
                            launch_.program.roles[static_cast<std::size_t>(other)].name,
                            place_text(code_.accesses[known->second.access].place), describe_thread(at)));
        known->second = touch;
    }
}

/// Barriers are the lowering's; what it cannot know are other roles, and whether indices meet.
std::string AccessChecker::order_cure(const AccessInfo& info, int thread, const SharedHistory::Touch& other) const {
    if (role_of(thread) != role_of(other.thread))
        return "only a ring orders two roles: touch the tile inside of ring.use, by the slot that it gives";
    const int warp = thread / ir::threads_of_warp, other_warp = other.thread / ir::threads_of_warp;
    if (warp != other_warp && ir::has_each_warp(launch_.program))
        return "nothing orders the warps of k.each_warp: give each a piece of its own (tile[i % warps]), or add by "
               "atomic_add";
    if (info.store && code_.accesses[other.access].store && info.place.line == code_.accesses[other.access].place.line)
        return "let the indices of a scatter name each element of a shared tile once, or add by atomic_add";
    return "a barrier is missing between the two, which lowering puts where it is needed: please report this";
}

std::string AccessChecker::copy_cure(const AccessInfo& copy) const {
    if (!copy.bulk) return "put wait_copies() between the two";
    return launch_.program.roles.empty()
               ? "touch the tile in the second function of k.pipelined, by the slot that it gets"
               : "touch the tile inside of ring.use, by the slot that it gives";
}

}  // namespace tessera::host

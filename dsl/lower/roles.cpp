#include "dsl/ir/roles.hpp"

#include "dsl/ir/walk.hpp"
#include "dsl/lower/plan.hpp"

namespace tessera::lower {

int threads_of(const ir::Program& program, int role) {
    return role < 0 ? program.threads : program.roles[static_cast<std::size_t>(role)].threads();
}

void find_roles(const ir::Program& program, Plan& plan) {
    plan.roles.assign(static_cast<std::size_t>(program.arena->size()), -1);
    plan.variable_roles.assign(program.variables.size(), -1);
    for (const ir::Statement& top : program.body) {
        const ir::For* const role = ir::role_of(top);
        if (!role) continue;
        ir::NodeSet met;
        ir::for_each_statement(role->body, [&](const ir::Statement& s) {
            if (const auto* a = s.as<ir::Assign>())
                plan.variable_roles[static_cast<std::size_t>(a->variable)] = role->role;
            ir::for_each_ref(s, [&](Ref root) {
                ir::for_each_node(root, met, [&](Ref n) { plan.roles[static_cast<std::size_t>(n->id)] = role->role; });
            });
        });
    }
}

}  // namespace tessera::lower

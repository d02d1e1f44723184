#include <functional>

#include "dsl/ir/each_warp.hpp"
#include "dsl/ir/roles.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/plan.hpp"

namespace tessera::lower {

namespace {

class Pass {
public:
    Pass(const ir::Program& program, Plan& plan) : program_(program), plan_(plan) {}

    void body(const ir::Body& statements) {
        for (const ir::Statement& s : statements) {
            const auto* loop = s.as<ir::For>();
            if (!loop) continue;
            if (loop->role < 0 && !loop->each_warp) {
                body(loop->body);
                continue;
            }
            plan_.loop_teams[static_cast<std::size_t>(loop->loop)] = plan_.teams.size();
            if (loop->each_warp) {
                plan_.teams.push_back({ir::threads_of_warp, 0, true});
            } else {
                const ir::WarpRole& role = program_.roles[static_cast<std::size_t>(loop->role)];
                plan_.teams.push_back({role.threads(), role.first_thread()});
            }
            ir::NodeSet met;
            ir::for_each_statement(loop->body, [&](const ir::Statement& inner) { take(inner, met); });
        }
    }

private:
    /// What the statement is made of belongs to the latest team. Numbers may come from outside, and what they were made
    /// from is met where they are bound.
    void take(const ir::Statement& s, ir::NodeSet& met) {
        const std::size_t team = plan_.teams.size() - 1;
        if (const auto* a = s.as<ir::Assign>()) plan_.variable_teams[static_cast<std::size_t>(a->variable)] = team;
        const auto* bind = s.as<ir::Bind>();
        const std::function<void(Ref)> visit = [&](Ref n) {
            if (!met.add(n)) return;
            plan_.node_teams[static_cast<std::size_t>(n->id)] = team;
            if (!n->scalar() || (bind && n == bind->value)) ir::for_each_operand(*n, visit);
        };
        ir::for_each_ref(s, visit);
    }

    const ir::Program& program_;
    Plan& plan_;
};

}  // namespace

void find_teams(const ir::Program& program, Plan& plan) {
    plan.teams.assign(1, {program.threads});
    plan.node_teams.assign(static_cast<std::size_t>(program.arena->size()), 0);
    plan.variable_teams.assign(program.variables.size(), 0);
    plan.loop_teams.assign(static_cast<std::size_t>(program.loops), 0);
    Pass(program, plan).body(program.body);
}

}  // namespace tessera::lower

#include <algorithm>

#include "dsl/ir/walk.hpp"
#include "dsl/lower/plan.hpp"

// Values mean what they meant on their line, yet only pure trees may float: a value with one user in the same loop is
// computed inside it; one with several, whose user stands in another loop, or that is broadcast, at its own line.

namespace tessera::lower {

namespace {

struct Use {
    int count = 0;   // 2 for more
    int scope = -1;  // of the last user
};

/// Reads or meets other threads at its line.
bool is_event(const ir::Node& n) {
    return n.as<ir::Load>() || n.as<ir::Reduce>() || n.as<ir::Least>() || n.as<ir::Match>() || n.as<ir::Mma>() ||
           n.as<ir::Scan>() || n.as<ir::VariableRead>() || n.as<ir::WarpReduce>();
}

/// A scope is the loop it belongs to, plus one; 0 is the kernel's own.
class Uses {
public:
    explicit Uses(const ir::Program& p)
        : uses_(static_cast<std::size_t>(p.arena->size())),
          line_scope_(uses_.size(), no_line),
          spread_(uses_.size(), false),
          in_table_(uses_.size(), false) {
        note_lines(p.body, 0);
        walk(p.body, 0);
    }
    const Use& of(Ref n) const { return uses_[static_cast<std::size_t>(n->id)]; }
    int line_scope(Ref n) const { return line_scope_[static_cast<std::size_t>(n->id)]; }
    /// Whether one element of it serves several of its users' tiles.
    bool spread(Ref n) const { return spread_[static_cast<std::size_t>(n->id)]; }

private:
    static constexpr int no_line = -1;

    void note_lines(const ir::Body& body, int scope) {
        for (const ir::Statement& s : body) {
            if (const auto* b = s.as<ir::Bind>()) line_scope_[static_cast<std::size_t>(b->value->id)] = scope;
            if (const auto* f = s.as<ir::For>()) note_lines(f->body, f->loop + 1);
        }
    }
    // Backwards, so that users are counted before what they use; a dead Bind counts nothing.
    void walk(const ir::Body& body, int scope) {
        for (auto s = body.rbegin(); s != body.rend(); ++s) {
            if (const auto* b = s->as<ir::Bind>()) {
                if (of(b->value).count > 0) use_operands(b->value, scope);
                continue;
            }
            if (const auto* f = s->as<ir::For>()) walk(f->body, f->loop + 1);
            ir::for_each_ref(*s, [&](Ref r) { use(r, scope); });
        }
    }
    void use(Ref n, int scope) {
        Use& u = uses_[static_cast<std::size_t>(n->id)];
        if (const auto* b = n->as<ir::Broadcast>(); b && !in_table_[static_cast<std::size_t>(n->id)])
            note_spread(b->value);
        if (u.count == 2) return;  // as good as any more
        ++u.count;
        u.scope = scope;
        if (line_scope(n) == no_line) use_operands(n, scope);  // recomputed by every user
    }
    void use_operands(Ref n, int scope) {
        if (const auto* lookup = n->as<ir::Lookup>())  // entries of a table are made together, ahead of their word
            for (Ref entry : lookup->table) in_table_[static_cast<std::size_t>(entry->id)] = true;
        ir::for_each_operand(*n, [&](Ref operand) { use(operand, scope); });
    }

    void note_spread(Ref n) {
        while (n->as<ir::Reshape>() || n->as<ir::Permute>())
            ir::for_each_operand(*n, [&](Ref operand) { n = operand; });
        spread_[static_cast<std::size_t>(n->id)] = true;
    }

    std::vector<Use> uses_;
    std::vector<int> line_scope_;
    std::vector<bool> spread_, in_table_;
};

}  // namespace

namespace {

/// Operations between a value and what is bound under it: what one written expression would nest. Longer chains are
/// cut.
class Depths {
public:
    explicit Depths(const ir::Program& p) : depth_(static_cast<std::size_t>(p.arena->size()), 0) {}
    /// Of a value whose operands have been asked for, or set to bound, before.
    int of(Ref n) {
        int& known = depth_[static_cast<std::size_t>(n->id)];
        if (known > 0) return known;
        int deepest = 0;
        ir::for_each_operand(*n, [&](Ref operand) { deepest = std::max(deepest, of(operand)); });
        return known = deepest + 1;
    }
    void bind(Ref n) { depth_[static_cast<std::size_t>(n->id)] = 1; }

private:
    std::vector<int> depth_;
};

constexpr int deepest_expression = 100;

}  // namespace

void choose_bindings(const ir::Program& program, Plan& plan) {
    const Uses uses(program);
    Depths depths(program);
    plan.bound.assign(static_cast<std::size_t>(program.arena->size()), false);
    ir::for_each_statement(program.body, [&](const ir::Statement& s) {
        const auto* b = s.as<ir::Bind>();
        if (!b) return;
        const Use& use = uses.of(b->value);
        if (use.count == 0) return;
        const bool broadcast = uses.spread(b->value) && !b->value->scalar() && !b->value->as<ir::Broadcast>();
        const bool bound = is_event(*b->value) || broadcast || use.count > 1 ||
                           use.scope != uses.line_scope(b->value) || depths.of(b->value) > deepest_expression;
        if (bound) depths.bind(b->value);
        plan.bound[static_cast<std::size_t>(b->value->id)] = bound;
    });
}

}  // namespace tessera::lower

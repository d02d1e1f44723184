#include "tests/mutants/mutate.hpp"

#include <fmt/core.h>
#include <functional>

#include "dsl/ir/walk.hpp"

namespace tessera::test {
namespace {

using ir::Body;
using ir::Ref;

std::string line_of(const Place& place) { return fmt::format("{}:{}", place.file, place.line); }

Ref predicate_of(const ir::Statement& statement) {
    if (const auto* load = statement.as<ir::LoadVector>()) return load->access.predicate;
    if (const auto* store = statement.as<ir::StoreVector>()) return store->access.predicate;
    if (const auto* copy = statement.as<ir::CopyVector>()) return copy->from.predicate;
    return nullptr;
}

/// Calls f(list, index) for every statement, inner lists included; f must not change the lists.
void each_place(Body& body, const std::function<void(Body&, std::size_t)>& f) {
    for (std::size_t i = 0; i < body.size(); ++i) {
        f(body, i);
        if (auto* loop = body[i].as<ir::For>()) each_place(loop->body, f);
    }
}

/// Applies `change` to the n-th statement, in program order, that it accepts; false if there are not so many.
/// `change(list, index, apply)` says whether it accepts the statement, and changes it if `apply`.
bool change_nth(Body& body, int n, const std::function<bool(Body&, std::size_t, bool)>& change) {
    int seen = 0;
    Body* list = nullptr;
    std::size_t at = 0;
    each_place(body, [&](Body& b, std::size_t i) {
        if (change(b, i, false) && seen++ == n) list = &b, at = i;
    });
    return list != nullptr && change(*list, at, true);
}

void add_statement_mutants(const ir::Program& lowered, const char* fault,
                           const std::function<bool(Body&, std::size_t, bool)>& change, std::vector<Mutant>& mutants) {
    for (int n = 0;; ++n) {
        Mutant m{"", lowered};
        Place place;
        const bool changed = change_nth(m.program.body, n, [&](Body& b, std::size_t i, bool apply) {
            if (apply) {
                place = b[i].place;
                if (const Ref mask = predicate_of(b[i])) m.lost = {mask};
            }
            return change(b, i, apply);
        });
        if (!changed) return;
        m.fault = fmt::format("{} {} ({})", fault, n, line_of(place));
        mutants.push_back(std::move(m));
    }
}

/// Behind a wait for copies a thread may read nothing but what it has copied itself: that barrier need not matter.
bool remove_barrier(Body& body, std::size_t i, bool apply) {
    if (body[i].as<ir::Barrier>() == nullptr) return false;
    if (i > 0 && body[i - 1].as<ir::WaitCopies>() != nullptr) return false;
    if (apply) body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
}

bool remove_wait(Body& body, std::size_t i, bool apply) {
    if (body[i].as<ir::WaitCopies>() == nullptr) return false;
    if (apply) body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
}

/// One group more may stay under way.
bool wait_for_less(Body& body, std::size_t i, bool apply) {
    auto* wait = body[i].as<ir::WaitCopies>();
    if (wait == nullptr || wait->mbarriers >= 0) return false;
    if (apply) ++wait->pending;
    return true;
}

bool remove_commit(Body& body, std::size_t i, bool apply) {
    if (body[i].as<ir::CommitCopies>() == nullptr) return false;
    if (apply) body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
}

bool remove_grid_sync(Body& body, std::size_t i, bool apply) {
    if (body[i].as<ir::GridSync>() == nullptr) return false;
    if (apply) body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
}

bool drop_predicate(Body& body, std::size_t i, bool apply) {
    if (predicate_of(body[i]) == nullptr) return false;
    if (!apply) return true;
    if (auto* load = body[i].as<ir::LoadVector>()) load->access.predicate = load->fill = nullptr;
    if (auto* store = body[i].as<ir::StoreVector>()) store->access.predicate = nullptr;
    if (auto* copy = body[i].as<ir::CopyVector>()) copy->from.predicate = nullptr;
    return true;
}

/// A node and the operand that takes its place.
struct Replacement {
    Ref node, by;
    std::string what;
    std::vector<Ref> lost, unneeded;  // as in Mutant
};

std::vector<Replacement> replacements_in(const ir::Program& program) {
    std::vector<Replacement> found;
    ir::NodeSet met;
    ir::for_each_statement(program.body, [&](const ir::Statement& statement) {
        ir::for_each_ref(statement, [&](Ref root) {
            ir::for_each_node(root, met, [&](Ref node) {
                const std::string line = line_of(node->place);
                if (const auto* s = node->as<ir::Select>()) {
                    found.push_back({node, s->a, "select always takes its first value, " + line, {s->condition}, {}});
                    found.push_back({node, s->b, "select always takes its second value, " + line, {}, {s->condition}});
                }
                const auto* b = node->as<ir::Binary>();
                if (b != nullptr && b->op == ir::BinaryOp::bit_and && node->type == boolean) {
                    found.push_back({node, b->a, "mask without its second part, " + line, {b->b}, {b->a}});
                    found.push_back({node, b->b, "mask without its first part, " + line, {b->a}, {b->b}});
                }
            });
        });
    });
    return found;
}

void add_node_mutants(const ir::Program& lowered, std::vector<Mutant>& mutants) {
    for (const Replacement& r : replacements_in(lowered)) {
        Mutant m{r.what, lowered, r.lost, r.unneeded};
        ir::Rewriter rewriter(*m.program.arena, [&](const ir::Node& node, auto& self) -> Ref {
            return &node == r.node ? self(r.by) : nullptr;
        });
        ir::rewrite_body(m.program.body, rewriter);
        mutants.push_back(std::move(m));
    }
}

}  // namespace

std::vector<Mutant> mutants_of(const ir::Program& lowered) {
    std::vector<Mutant> mutants;
    add_statement_mutants(lowered, "without barrier", remove_barrier, mutants);
    add_statement_mutants(lowered, "without wait", remove_wait, mutants);
    add_statement_mutants(lowered, "with a wait for less", wait_for_less, mutants);
    add_statement_mutants(lowered, "without commit", remove_commit, mutants);
    add_statement_mutants(lowered, "without grid sync", remove_grid_sync, mutants);
    add_statement_mutants(lowered, "without the predicate of access", drop_predicate, mutants);
    add_node_mutants(lowered, mutants);
    return mutants;
}

}  // namespace tessera::test

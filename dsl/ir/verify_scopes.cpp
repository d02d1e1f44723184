#include "dsl/ir/verify_scopes.hpp"

#include <algorithm>

#include "dsl/base/error.hpp"
#include "dsl/ir/evaluate.hpp"

namespace tessera::ir::detail {

namespace {

std::size_t slot(Ref node) { return static_cast<std::size_t>(node->id); }

std::int64_t index_value(const Diagnosis& at, Ref index, std::span<const Counter> counters) {
    try {
        return evaluate_integer(index, {}, counters);
    } catch (const UsageError&) {
        at.fail("register-index", index, "a register index divides by zero");
    }
}

bool must_be_bound(const Node& n) {
    return n.as<Load>() || n.as<Reduce>() || n.as<Least>() || n.as<Match>() || n.as<Mma>() || n.as<Scan>() ||
           n.as<VariableRead>() || n.as<WarpReduce>();
}

}  // namespace

Scopes::Scopes(const Program& program)
    : program_(program),
      locals_(program.locals.size(), State::unknown),
      arrays_(program.arrays.size(), State::unknown),
      local_values_(program.locals.size(), nullptr),
      loops_(static_cast<std::size_t>(std::max(program.loops, 0))),
      frames_(1) {
    const auto nodes = static_cast<std::size_t>(program.arena ? program.arena->size() : 0);
    owner_.assign(nodes, nullptr);
    checked_.assign(nodes, false);
    stamp_.assign(nodes, 0);
    bound_.assign(nodes, State::unknown);
    bound_somewhere_.assign(nodes, false);
    for_each_statement(program.body, [&](const Statement& s) {
        const auto* bind = s.as<Bind>();
        if (bind && bind->value && slot(bind->value) < nodes) bound_somewhere_[slot(bind->value)] = true;
    });
}

// ---- scopes --------------------------------------------------------------------------------------------------------

void Scopes::open_loop(const Diagnosis& at, const For& loop) {
    at.require(loop.loop >= 0 && static_cast<std::size_t>(loop.loop) < loops_.size(), "index-range", nullptr,
               "the program has no such loop");
    LoopState& state = loops_[static_cast<std::size_t>(loop.loop)];
    at.require(state.state == State::unknown, "loop-id", nullptr, "two loops have one id");
    state.unrolled = loop.unrolled;
    if (loop.unrolled) {
        state.begin = evaluate_integer(loop.begin, {});
        state.end = evaluate_integer(loop.end, {});
        state.step = evaluate_integer(loop.step, {});
    }
    state.state = State::open;
    frames_.emplace_back();
}

void Scopes::close_loop(const For& loop) {
    loops_[static_cast<std::size_t>(loop.loop)].state = State::closed;
    const Frame& frame = frames_.back();
    for (int id : frame.bound) bound_[static_cast<std::size_t>(id)] = State::closed;
    for (int id : frame.locals) locals_[static_cast<std::size_t>(id)] = State::closed;
    for (int id : frame.arrays) arrays_[static_cast<std::size_t>(id)] = State::closed;
    frames_.pop_back();
}

void Scopes::bind(const Diagnosis& at, Ref node) {
    at.require(bound_[slot(node)] == State::unknown, "bind-once", node, "a tile is bound twice");
    bound_[slot(node)] = State::open;
    frames_.back().bound.push_back(node->id);
}

void Scopes::let(const Diagnosis& at, const Let& statement) {
    at.require(statement.local >= 0 && static_cast<std::size_t>(statement.local) < locals_.size(), "index-range",
               nullptr, "the program has no such local");
    State& state = locals_[static_cast<std::size_t>(statement.local)];
    at.require(state == State::unknown, "local-once", nullptr, "a local is bound twice");
    state = State::open;
    local_values_[static_cast<std::size_t>(statement.local)] = statement.value;
    frames_.back().locals.push_back(statement.local);
}

void Scopes::declare(const Diagnosis& at, int array) {
    at.require(array >= 0 && static_cast<std::size_t>(array) < arrays_.size(), "index-range", nullptr,
               "the program has no such register array");
    State& state = arrays_[static_cast<std::size_t>(array)];
    at.require(state == State::unknown, "array-once", nullptr, "a register array is declared twice");
    state = State::open;
    frames_.back().arrays.push_back(array);
}

void Scopes::require_declared(const Diagnosis& at, int array, Ref node) const {
    at.require(array >= 0 && static_cast<std::size_t>(array) < arrays_.size(), "index-range", node,
               "the program has no such register array");
    at.require(arrays_[static_cast<std::size_t>(array)] == State::open, "array-scope", node,
               "a register array is used where no declaration is in scope");
}

// ---- expressions ---------------------------------------------------------------------------------------------------

void Scopes::verify_expression(const Diagnosis& at, Ref root, bool launch) {
    ++walk_;
    visit(at, root, launch, false);
}

void Scopes::verify_bound_value(const Diagnosis& at, Ref root) {
    ++walk_;
    visit(at, root, false, true);
}

void Scopes::verify_identity(const Diagnosis& at, Ref node) {
    at.require(node->id >= 0 && slot(node) < owner_.size(), "node-id", node, "the node is not of the program's arena");
    Ref& owner = owner_[slot(node)];
    at.require(owner == nullptr || owner == node, "node-id", node,
               "two nodes bear one id; one is not of the program's arena");
    owner = node;
}

void Scopes::visit(const Diagnosis& at, Ref node, bool launch, bool is_root_of_bind) {
    at.require(node != nullptr, "operand-missing", nullptr, "an expression is missing");
    verify_identity(at, node);
    if (stamp_[slot(node)] == walk_) return;
    stamp_[slot(node)] = walk_;
    if (!is_root_of_bind && bound_[slot(node)] == State::open) return;
    if (!checked_[slot(node)]) verify_node(at, *node);
    checked_[slot(node)] = true;
    if (!is_root_of_bind && !launch)
        at.require(!bound_somewhere_[slot(node)] && (lowered() || !must_be_bound(*node)), "bind-scope", node,
                   "a tile is used where no Bind of it is in scope");
    for_each_operand(*node, [&](Ref operand) { visit(at, operand, launch, false); });
    verify_use(at, *node);
}

void Scopes::verify_use(const Diagnosis& at, const Node& n) const {
    if (const auto* index = n.as<LoopIndex>()) {
        const LoopState& loop = loops_[static_cast<std::size_t>(index->loop)];
        at.require(loop.state == State::open, "loop-scope", &n, "a counter is used outside its loop");
        at.require(n.type == (loop.unrolled ? i32 : i64), "result-type", &n,
                   "a counter is i64 in a serial loop and i32 in an unrolled one");
    }
    if (const auto* use = n.as<Local>()) {
        const auto i = static_cast<std::size_t>(use->local);
        at.require(locals_[i] == State::open, "local-scope", &n, "a local is used where no Let of it is in scope");
        at.require(n.type == local_values_[i]->type && n.shape == local_values_[i]->shape, "result-type", &n,
                   "a local's type and lanes are not those of its value");
    }
    if (const auto* word = n.as<Register>()) {
        require_declared(at, word->array, &n);
        verify_register_index(at, word->array, word->index, 1);
    }
}

// ---- register indices ----------------------------------------------------------------------------------------------

void Scopes::verify_register_index(const Diagnosis& at, int array, Ref index, int words) const {
    constexpr std::int64_t most_turns = 1 << 16;
    at.require(index->type == i32 && index->scalar(), "register-index", index, "a register index is i32 of rank 0");
    std::vector<Counter> counters;
    std::int64_t turns = 1;
    NodeSet met;
    for_each_node(index, met, [&](Ref n) {
        const auto* counter = n->as<LoopIndex>();
        const bool pure = n->as<Constant>() || n->as<Unary>() || n->as<Binary>() || n->as<Select>() || n->as<Cast>();
        const bool known = counter && counter->loop >= 0 && static_cast<std::size_t>(counter->loop) < loops_.size();
        const LoopState loop = known ? loops_[static_cast<std::size_t>(counter->loop)] : LoopState{};
        at.require(pure || (loop.unrolled && loop.state == State::open), "register-index", index,
                   "a register index is made of constants and counters of unrolled loops alone");
        if (!counter) return;
        const bool again =
            std::any_of(counters.begin(), counters.end(), [&](const Counter& c) { return c.loop == counter->loop; });
        if (again) return;
        counters.push_back({counter->loop, loop.begin});
        turns *= std::max<std::int64_t>(0, (loop.end - loop.begin + loop.step - 1) / loop.step);
        at.require(turns <= most_turns, "register-index", index,
                   "the loops around a register index make more than 65536 turns");
    });
    const std::int64_t size = program_.arrays[static_cast<std::size_t>(array)].words;
    for (std::int64_t turn = 0; turn < turns; ++turn) {
        const std::int64_t first = index_value(at, index, counters);
        at.require(first >= 0 && first + words <= size, "register-range", index,
                   "a register index runs past its array");
        for (Counter& c : counters) {  // the next combination, the first counter fastest
            const LoopState& loop = loops_[static_cast<std::size_t>(c.loop)];
            c.value += loop.step;
            if (c.value < loop.end) break;
            c.value = loop.begin;
        }
    }
}

}  // namespace tessera::ir::detail

#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "dsl/ir/program.hpp"
#include "dsl/ir/statement_fields.hpp"

// Walking and rewriting of expressions and statements, derived from fields(). Memos are vectors by dense node id: hash
// maps cost four times as much over a whole lowering.

namespace tessera::ir {

/// Recorded: a warp's vote, or its opposite, as a boolean or as the number of turns of a condition.
inline bool is_vote(Ref node) {
    if (const auto* cast = node->as<Cast>(); cast && node->type == i64) node = cast->value;
    if (const auto* u = node->as<Unary>(); u && u->op == UnaryOp::bit_not) node = u->value;
    return node->as<WarpReduce>() != nullptr;
}

/// Lowered: whether all lanes of a warp must come to it together.
inline bool crosses_lanes(Ref node) { return node->as<Shuffle>() || node->as<WarpReduce>() || node->as<Match>(); }

/// Lowered: whether C++ leaves this operand out where others decide: it prints as `a && b`, `a || b` or `c ? a : b`.
inline bool may_be_left_out(Ref node, Ref operand) {
    if (const auto* s = node->as<Select>()) return operand == s->a || operand == s->b;
    const auto* b = node->as<Binary>();
    return b && node->type == boolean && (b->op == BinaryOp::bit_and || b->op == BinaryOp::bit_or) && operand == b->b;
}

namespace detail {

/// Calls fn on every non-null Ref of one field; a reference to the Ref itself, so that fn may replace it where `field`
/// is not const. Fields that hold no Ref, and bodies, are passed over.
template <class Field, class Fn>
void each_ref_in(Field& field, Fn& fn) {
    using Plain = std::remove_const_t<Field>;
    if constexpr (std::is_same_v<Plain, Ref>) {
        if (field != nullptr) fn(field);
    } else if constexpr (std::is_same_v<Plain, std::vector<Ref>>) {
        for (auto& ref : field) each_ref_in(ref, fn);
    } else if constexpr (std::is_same_v<Plain, View>) {
        for (auto& axis : field.axes) each_ref_in(axis.offset, fn);
    } else if constexpr (std::is_same_v<Plain, Access>) {
        fields_of(field, [&](const char*, auto& inner) { each_ref_in(inner, fn); });
    }
}

template <class OpVariant, class Fn>
void each_operand(OpVariant& op, Fn& fn) {
    std::visit(
        [&](auto& kind) {
            std::remove_const_t<std::remove_reference_t<decltype(kind)>>::fields(
                kind, [&](const char*, auto& field) { each_ref_in(field, fn); });
        },
        op);
}

template <class StatementVariant, class Fn>
void each_ref_of_statement(StatementVariant& op, Fn& fn) {
    std::visit([&](auto& kind) { fields_of(kind, [&](const char*, auto& field) { each_ref_in(field, fn); }); }, op);
}

}  // namespace detail

/// Calls fn(Ref) on every operand of a node, in the order of its fields; offsets of a view included, null ones not.
template <class Fn>
void for_each_operand(const Node& node, Fn&& fn) {
    detail::each_operand(node.op, fn);
}

/// The node's operation with fn(operand) in place of every operand.
template <class Fn>
Op map_operands(const Node& node, Fn&& fn) {
    Op op = node.op;
    auto replace = [&](Ref& operand) { operand = fn(operand); };
    detail::each_operand(op, replace);
    return op;
}

/// Calls fn(Ref) on every expression that a statement names directly, its access's coordinates, offset and predicate
/// included; not on those of a loop's body.
template <class Fn>
void for_each_ref(const Statement& statement, Fn&& fn) {
    detail::each_ref_of_statement(statement.op, fn);
}

/// Puts fn(ref) in place of every expression that for_each_ref visits.
template <class Fn>
void map_refs(Statement& statement, Fn&& fn) {
    auto replace = [&](Ref& ref) { ref = fn(ref); };
    detail::each_ref_of_statement(statement.op, replace);
}

/// Calls fn(statement) in program order, a loop before its body. `body` may be const or not; fn must not change the
/// lists.
template <class SomeBody, class Fn>
    requires std::same_as<std::remove_const_t<SomeBody>, Body>
void for_each_statement(SomeBody& body, Fn&& fn) {
    for (auto& statement : body) {
        fn(statement);
        if (auto* loop = statement.template as<For>()) for_each_statement(loop->body, fn);
    }
}

/// Remembers which nodes of an arena were met. add() is true the first time.
class NodeSet {
public:
    bool add(Ref node) {
        const auto id = static_cast<std::size_t>(node->id);
        if (id >= seen_.size()) seen_.resize(id + id / 2 + 16, false);
        if (seen_[id]) return false;
        seen_[id] = true;
        return true;
    }
    bool contains(Ref node) const {
        const auto id = static_cast<std::size_t>(node->id);
        return id < seen_.size() && seen_[id];
    }

private:
    std::vector<bool> seen_;
};

/// Calls fn(Ref) once on every node that `root` is made of and that `met` does not hold yet, operands before their
/// user.
template <class Fn>
void for_each_node(Ref root, NodeSet& met, Fn&& fn) {
    if (!met.add(root)) return;
    for_each_operand(*root, [&](Ref operand) { for_each_node(operand, met, fn); });
    fn(root);
}

/// What a Rewriter does with a node none of whose operands changed.
enum class Unchanged : std::uint8_t {
    keep,  // the node itself: the new program shares the old one's arena
    copy,  // a new node: the old program has another arena
};

/// Rewrites expressions; every node once, whatever the number of its users.
///
/// `rule(const Node&, Rewriter&) -> Ref` is asked first: it returns the replacement, or null for the default, which is
/// `rebuild`. To work on rewritten operands it calls the rewriter on them, or rebuild on the node.
///
///     Rewriter fold(arena, [&](const Node& n, auto& self) -> Ref { return n.as<Cast>() ? fold_cast(n, self) : nullptr;
///     }); rewrite_body(body, fold);
template <class Rule>
class Rewriter {
public:
    Rewriter(Arena& into, Rule rule, Unchanged unchanged = Unchanged::keep)
        : into_(into), rule_(std::move(rule)), unchanged_(unchanged), memo_(into.size(), nullptr) {}

    Ref operator()(Ref node) {
        if (node == nullptr) return nullptr;
        if (const Ref known = recall(node)) return known;
        Ref result = rule_(*node, *this);
        if (result == nullptr) result = rebuild(*node);
        set(node, result);
        return result;
    }

    /// The node over its rewritten operands, with its own type, shape and place.
    Ref rebuild(const Node& node) {
        bool changed = unchanged_ == Unchanged::copy;
        for_each_operand(node, [&](Ref operand) { changed |= (*this)(operand) != operand; });
        if (!changed) return &node;
        return into_.make(node.type, node.shape, node.place, map_operands(node, *this));
    }

    /// Fixes what a node becomes.
    void set(Ref node, Ref result) {
        const auto id = static_cast<std::size_t>(node->id);
        if (id >= memo_.size()) memo_.resize(id + id / 2 + 16, nullptr);
        memo_[id] = result;
    }

    /// Forgets all results, for a rule whose answers depend on where in the program it stands.
    void forget() { memo_.assign(memo_.size(), nullptr); }

    Arena& arena() { return into_; }

private:
    Ref recall(Ref node) const {
        const auto id = static_cast<std::size_t>(node->id);
        return id < memo_.size() ? memo_[id] : nullptr;
    }

    Arena& into_;
    Rule rule_;
    Unchanged unchanged_;
    std::vector<Ref> memo_;
};

/// Rewrites, in place and in program order, every expression of the body, inner bodies included.
template <class Rule>
void rewrite_body(Body& body, Rewriter<Rule>& rewriter) {
    for_each_statement(body, [&](Statement& statement) { map_refs(statement, rewriter); });
}

/// Rewrites all that a program holds: its body, grid, and the extents and strides of its tensors.
template <class Rule>
void rewrite_program(Program& program, Rewriter<Rule>& rewriter) {
    for (TensorParam& tensor : program.tensors)
        for (Axis& axis : tensor.axes) axis.extent = rewriter(axis.extent), axis.stride = rewriter(axis.stride);
    for (Ref& extent : program.grid) extent = rewriter(extent);
    rewrite_body(program.body, rewriter);
}

}  // namespace tessera::ir

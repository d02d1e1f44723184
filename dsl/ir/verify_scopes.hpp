#pragma once

#include <cstdint>
#include <vector>

#include "dsl/ir/diagnosis.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::ir::detail {

/// What is in scope while the statements of a program are walked in order, and the rules of expressions that depend on
/// it.
class Scopes {
public:
    explicit Scopes(const Program& program);

    void open_loop(const Diagnosis& at, const For& loop);
    void close_loop(const For& loop);
    bool at_top() const { return frames_.size() == 1; }  // outside of all loops
    void bind(const Diagnosis& at, Ref node);
    void let(const Diagnosis& at, const Let& statement);
    void declare(const Diagnosis& at, int array);
    void require_declared(const Diagnosis& at, int array, Ref node) const;

    /// Every rule of every node that `root` is made of. Loads, reductions and reads of variables may stand only where
    /// they are bound; `launch`: the expression stands before the body, where nothing is bound yet but pure nodes bound
    /// later may be used all the same.
    void verify_expression(const Diagnosis& at, Ref root, bool launch = false);
    /// The value of a Bind, which may be of any kind.
    void verify_bound_value(const Diagnosis& at, Ref root);
    /// A register index: i32, over constants and counters of unrolled loops, with [index, index + words) inside the
    /// array for all values of these counters.
    void verify_register_index(const Diagnosis& at, int array, Ref index, int words) const;

private:
    enum class State : std::uint8_t { unknown, open, closed };
    struct LoopState {
        State state = State::unknown;
        bool unrolled = false;
        std::int64_t begin = 0, end = 0, step = 1;
    };
    struct Frame {
        std::vector<int> bound, locals, arrays;
    };

    bool lowered() const { return program_.stage == Stage::lowered; }  // values across lanes need no Bind
    void visit(const Diagnosis& at, Ref node, bool launch, bool is_root_of_bind);
    void verify_use(const Diagnosis& at, const Node& node) const;
    void verify_identity(const Diagnosis& at, Ref node);

    const Program& program_;
    std::vector<Ref> owner_;             // by node id: the node that bears it
    std::vector<bool> checked_;          // by node id: its own rules hold
    std::vector<int> stamp_;             // by node id: the expression that met it last
    std::vector<State> bound_;           // by node id
    std::vector<bool> bound_somewhere_;  // by node id
    std::vector<State> locals_, arrays_;
    std::vector<Ref> local_values_;
    std::vector<LoopState> loops_;
    std::vector<Frame> frames_;
    int walk_ = 0;
};

}  // namespace tessera::ir::detail

#pragma once

#include <unordered_map>

#include "dsl/ir/program.hpp"

// Makes lowered expressions: equal ones are one node, whole-number arithmetic is folded. Also what is known of a
// number.

namespace tessera::lower {

using ir::Ref;

class Expressions {
public:
    explicit Expressions(ir::Arena& arena) : arena_(arena) {}

    Ref make(Element type, Shape shape, ir::Op op);
    Ref number(Element type, std::int64_t value);
    Ref i32(std::int64_t value) { return number(Element::i32, value); }
    Ref i64(std::int64_t value) { return number(Element::i64, value); }
    Ref truth(bool value) { return make(Element::boolean, {}, ir::Constant{value ? 1u : 0u}); }
    /// The index of the thread in the role that is lowered, else in the block.
    Ref thread() { return thread_ ? thread_ : make(Element::i32, {}, ir::ThreadIndex{}); }
    /// Null: in the block.
    void set_thread(Ref index) { thread_ = index; }

    /// Operands have one type; i32 operands of an i64 partner are widened.
    Ref binary(ir::BinaryOp op, Ref a, Ref b);
    Ref add(Ref a, Ref b) { return binary(ir::BinaryOp::add, a, b); }
    Ref mul(Ref a, Ref b) { return binary(ir::BinaryOp::mul, a, b); }
    Ref mul(Ref a, std::int64_t b) { return binary(ir::BinaryOp::mul, a, number(a->type, b)); }
    Ref div(Ref a, std::int64_t b) { return binary(ir::BinaryOp::div, a, number(a->type, b)); }
    Ref mod(Ref a, std::int64_t b) { return binary(ir::BinaryOp::mod, a, number(a->type, b)); }
    Ref less(Ref a, Ref b) { return binary(ir::BinaryOp::lt, a, b); }
    /// a & b; null stands for true.
    Ref both(Ref a, Ref b) { return !a ? b : !b ? a : binary(ir::BinaryOp::bit_and, a, b); }
    Ref widen(Ref a);   // to i64
    Ref narrow(Ref a);  // to i32

private:
    ir::Arena& arena_;
    Ref thread_ = nullptr;
    std::unordered_multimap<std::uint64_t, Ref> known_;
};

/// The value of a constant whole number.
bool constant_value(Ref node, std::int64_t& value);

/// Whether a number is surely a multiple of n, by its constants alone.
bool is_multiple(Ref number, std::int64_t n);

/// What is known of rank-0 whole numbers of a program.
class Facts {
public:
    explicit Facts(const ir::Program& program) : program_(program) {}
    /// Largest power of two (≤ 2^30) known to divide it; 2^30 for 0.
    std::int64_t divisor(Ref node) const;
    /// Whether it is surely a multiple of n, from 1 to 2^30: any number, by what its parts are known to be multiples
    /// of.
    bool is_multiple(Ref node, std::int64_t n) const { return common_factor(node, n) == n; }
    /// Largest possible value, or −1 if none is known. Blocks and loops count from 0.
    std::int64_t upper_bound(Ref node) const;
    /// Whether it can never be below 0. Blocks, loops and the extents of tensors never are.
    bool non_negative(Ref node) const;
    /// Whether offset + extent ≤ limit for every block and iteration.
    bool inside(Ref offset, std::int64_t extent, Ref limit) const;

private:
    template <class Value, class Find>
    Value remembered(std::unordered_map<Ref, Value>& known, Ref node, Find&& find) const;
    std::int64_t find_divisor(Ref node) const;
    std::int64_t common_factor(Ref node, std::int64_t n) const;
    std::int64_t find_common_factor(Ref node, std::int64_t n) const;
    std::int64_t find_upper_bound(Ref node) const;
    bool find_non_negative(Ref node) const;
    /// How many values a block index or loop counter takes, from 0; null for anything else.
    Ref count_of(Ref index) const;
    const ir::Program& program_;
    mutable std::unordered_map<Ref, std::int64_t> divisors_, bounds_;
    mutable std::unordered_map<Ref, bool> signs_;
    mutable std::unordered_map<std::int64_t, std::unordered_map<Ref, std::int64_t>> factors_;  // by n
};

}  // namespace tessera::lower

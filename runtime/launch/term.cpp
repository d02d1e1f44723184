#include "runtime/launch/term.hpp"

#include <bit>
#include <utility>

#include "dsl/base/error.hpp"
#include "dsl/ir/evaluate.hpp"

namespace tessera::runtime {

namespace {

std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

std::int8_t shift_of(std::int64_t divisor) {
    const auto d = static_cast<std::uint64_t>(divisor);
    return static_cast<std::int8_t>(std::has_single_bit(d) ? std::countr_zero(d) : -1);
}

}  // namespace

Term::Term(ir::Ref e) : expression_(e) {
    require_internal(e != nullptr, "a tensor axis or grid extent has no expression");
    if (!fold(e)) kind_ = Kind::general;
    first_shift_ = shift_of(first_.divisor), second_shift_ = shift_of(second_.divisor);
    const bool as_it_is = !two_stages_ && first_.factor == 1 && first_.offset == 0 && first_.divisor == 1;
    if (kind_ == Kind::linear && as_it_is) kind_ = Kind::scalar;
}

/// Becomes `node`, if that has a quick form.
bool Term::fold(ir::Ref node) {
    if (node->type != i64 || !node->scalar()) return false;
    if (const auto* c = node->as<ir::Constant>()) {
        kind_ = Kind::constant;
        first_.offset = static_cast<std::int64_t>(c->bits);
        return true;
    }
    if (const auto* p = node->as<ir::Parameter>()) {
        kind_ = Kind::linear;
        index_ = static_cast<std::uint32_t>(p->index);
        return true;
    }
    const auto* op = node->as<ir::Binary>();
    return op && fold_binary(*op);
}

bool Term::fold_binary(const ir::Binary& op) {
    Term a, b;
    if (!a.fold(op.a) || !b.fold(op.b)) return false;
    const bool swaps = op.op == ir::BinaryOp::add || op.op == ir::BinaryOp::mul;
    if (swaps && a.is_constant()) std::swap(a, b);
    if (!b.is_constant()) return false;
    a.expression_ = expression_;
    *this = a;
    return apply(op.op, b.first_.offset);
}

/// Does one more operation with what there is so far.
bool Term::apply(ir::BinaryOp op, std::int64_t number) {
    if ((two_stages_ ? second_ : first_).divisor != 1) {
        if (two_stages_) return false;
        two_stages_ = true;
    }
    Stage& stage = two_stages_ ? second_ : first_;
    switch (op) {
        case ir::BinaryOp::add: stage.offset = wrapping_add(stage.offset, number); return true;
        case ir::BinaryOp::sub: stage.offset = wrapping_add(stage.offset, wrapping_mul(-1, number)); return true;
        case ir::BinaryOp::mul:
            stage.factor = wrapping_mul(stage.factor, number);
            stage.offset = wrapping_mul(stage.offset, number);
            return true;
        case ir::BinaryOp::div:
            if (number <= 0) return false;
            if (is_constant())
                stage.offset /= number;
            else
                stage.divisor = number;
            return true;
        default: return false;
    }
}

std::int64_t Term::general(std::span<const std::uint64_t> scalars) const {
    return ir::evaluate_integer(expression_, scalars);
}

}  // namespace tessera::runtime

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

}  // namespace

Term::Term(ir::Ref e) : expression_(e) {
    require_internal(e != nullptr, "a tensor axis or grid extent has no expression");
    if (!fold(e)) kind_ = Kind::general;
    if (const auto d = static_cast<std::uint64_t>(divisor_); std::has_single_bit(d))
        shift_ = static_cast<std::int8_t>(std::countr_zero(d));
    if (kind_ == Kind::linear && factor_ == 1 && offset_ == 0 && divisor_ == 1) kind_ = Kind::scalar;
}

/// Becomes `node`, if that has a linear form.
bool Term::fold(ir::Ref node) {
    if (node->type != i64 || !node->scalar()) return false;
    if (const auto* c = node->as<ir::Constant>()) {
        kind_ = Kind::constant;
        offset_ = static_cast<std::int64_t>(c->bits);
        return true;
    }
    if (const auto* p = node->as<ir::Parameter>()) {
        kind_ = Kind::linear;
        index_ = static_cast<std::uint32_t>(p->index);
        factor_ = 1;
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
    const ir::Ref kept = expression_;
    *this = a;
    expression_ = kept;
    const bool quotient = divisor_ != 1;
    std::int64_t& factor = quotient ? times_ : factor_;
    std::int64_t& offset = quotient ? plus_ : offset_;
    switch (op.op) {
        case ir::BinaryOp::add: offset = wrapping_add(offset, b.offset_); return true;
        case ir::BinaryOp::sub: offset = wrapping_add(offset, wrapping_mul(-1, b.offset_)); return true;
        case ir::BinaryOp::mul:
            factor = wrapping_mul(factor, b.offset_);
            offset = wrapping_mul(offset, b.offset_);
            return true;
        case ir::BinaryOp::div:
            if (b.offset_ <= 0 || quotient) return false;
            if (is_constant())
                offset_ /= b.offset_;
            else
                divisor_ = b.offset_;
            return true;
        default: return false;
    }
}

std::int64_t Term::general(std::span<const std::uint64_t> scalars) const {
    return ir::evaluate_integer(expression_, scalars);
}

}  // namespace tessera::runtime

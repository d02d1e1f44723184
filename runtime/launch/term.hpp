#pragma once

#include <cstdint>
#include <span>

#include "dsl/ir/node.hpp"

namespace tessera::runtime {

/// An i64 expression over a program's scalars, made quick to evaluate: nearly all are
/// (factor · scalar + offset) / divisor · times + plus.
class Term {
public:
    Term() = default;
    explicit Term(ir::Ref expression);

    std::int64_t operator()(std::span<const std::uint64_t> scalars) const {
        if (kind_ == Kind::constant) return offset_;
        if (kind_ == Kind::scalar) return static_cast<std::int64_t>(scalars[index_]);
        return kind_ == Kind::linear ? linear(scalars[index_]) : general(scalars);
    }

    ir::Ref expression() const { return expression_; }
    bool is_constant() const { return kind_ == Kind::constant; }
    /// Index of the scalar that it consists of; −1 if it is anything else.
    int scalar() const { return kind_ == Kind::scalar ? static_cast<int>(index_) : -1; }

private:
    enum class Kind : std::uint8_t { constant, scalar, linear, general };

    bool fold(ir::Ref node);
    bool fold_binary(const ir::Binary& op);
    std::int64_t linear(std::uint64_t scalar) const {
        const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(factor_) * scalar +
                                                   static_cast<std::uint64_t>(offset_));
        if (divisor_ == 1) return sum;
        const std::int64_t quotient = sum >= 0 && shift_ >= 0 ? sum >> shift_ : sum / divisor_;
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(times_) * static_cast<std::uint64_t>(quotient) +
                                         static_cast<std::uint64_t>(plus_));
    }
    std::int64_t general(std::span<const std::uint64_t> scalars) const;

    ir::Ref expression_ = nullptr;
    Kind kind_ = Kind::constant;
    std::int8_t shift_ = -1;  // log2 of the divisor, if that is a whole number
    std::uint32_t index_ = 0;
    std::int64_t factor_ = 0, offset_ = 0, divisor_ = 1;
    std::int64_t times_ = 1, plus_ = 0;  // of a quotient: the divisor is not 1
};

}  // namespace tessera::runtime

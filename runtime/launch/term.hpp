#pragma once

#include <cstdint>
#include <span>

#include "dsl/ir/node.hpp"

namespace tessera::runtime {

/// An i64 expression over a program's scalars, made quick to evaluate: nearly all are (factor · scalar + offset) /
/// divisor, or that once more of such a quotient, as where what was padded is divided among blocks.
class Term {
public:
    Term() = default;
    explicit Term(ir::Ref expression);

    std::int64_t operator()(std::span<const std::uint64_t> scalars) const {
        if (kind_ == Kind::constant) return first_.offset;
        if (kind_ == Kind::scalar) return static_cast<std::int64_t>(scalars[index_]);
        return kind_ == Kind::linear ? linear(static_cast<std::int64_t>(scalars[index_])) : general(scalars);
    }

    ir::Ref expression() const { return expression_; }
    bool is_constant() const { return kind_ == Kind::constant; }
    /// Index of the scalar that it consists of; −1 if it is anything else.
    int scalar() const { return kind_ == Kind::scalar ? static_cast<int>(index_) : -1; }
    /// Whether it is none of the quick forms.
    bool is_general() const { return kind_ == Kind::general; }

private:
    enum class Kind : std::uint8_t { constant, scalar, linear, general };

    struct Stage {
        std::int64_t factor = 1, offset = 0, divisor = 1;

        /// shift: log2 of the divisor, if that is a whole number.
        std::int64_t operator()(std::int64_t value, int shift) const {
            const auto sum =
                static_cast<std::int64_t>(static_cast<std::uint64_t>(factor) * static_cast<std::uint64_t>(value) +
                                          static_cast<std::uint64_t>(offset));
            return divisor == 1 ? sum : sum >= 0 && shift >= 0 ? sum >> shift : sum / divisor;
        }
    };

    bool fold(ir::Ref node);
    bool fold_binary(const ir::Binary& op);
    bool apply(ir::BinaryOp op, std::int64_t number);
    std::int64_t linear(std::int64_t scalar) const {
        const std::int64_t value = first_(scalar, first_shift_);
        return two_stages_ ? second_(value, second_shift_) : value;
    }
    std::int64_t general(std::span<const std::uint64_t> scalars) const;

    ir::Ref expression_ = nullptr;
    Kind kind_ = Kind::constant;
    bool two_stages_ = false;
    std::int8_t first_shift_ = -1, second_shift_ = -1;
    std::uint32_t index_ = 0;
    Stage first_, second_;
};

}  // namespace tessera::runtime

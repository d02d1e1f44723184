#include "tests/mutants/uniform.hpp"

#include "dsl/ir/walk.hpp"
#include "tests/support/programs/arithmetic.hpp"

namespace tessera::test {

using ir::Ref;

Masks::Masks(const ir::Program& lowered, const std::vector<Numbers>& launches) : program_(lowered) {
    ir::for_each_statement(lowered.body, [&](const ir::Statement& s) {
        if (const auto* let = s.as<ir::Let>()) locals_[let->local] = let->value;
    });
    for (const Numbers& numbers : launches) {
        std::vector<std::uint64_t> values;
        for (const auto& scalar : lowered.scalars)
            values.push_back(static_cast<std::uint64_t>(numbers.at(scalar.name)));
        scalars_.push_back(values);
    }
}

bool Masks::picks_a_copy(Ref mask) const {
    if (const auto* local = mask->as<ir::Local>()) return picks_a_copy(locals_.at(local->local));
    if (mask->as<ir::ThreadIndex>() || mask->as<ir::Constant>()) return true;
    bool only = mask->as<ir::Binary>() || mask->as<ir::Cast>();
    ir::for_each_operand(*mask, [&](Ref operand) { only = only && picks_a_copy(operand); });
    return only;
}

bool Masks::always(Ref mask, bool value) const {
    for (const auto& scalars : scalars_) {
        std::int64_t blocks = 1;
        for (const Ref extent : program_.grid) {
            std::uint64_t n = 0;
            if (!evaluate(extent, scalars, 0, n)) return false;
            blocks *= static_cast<std::int64_t>(n);
        }
        for (std::int64_t block = 0; block < blocks; ++block) {
            std::uint64_t now = 0;
            if (!evaluate(mask, scalars, block, now) || (now != 0) != value) return false;
        }
    }
    return true;
}

/// False if the value differs between the threads of a block, or hangs on data.
bool Masks::evaluate(Ref node, const std::vector<std::uint64_t>& scalars, std::int64_t block,
                     std::uint64_t& value) const {
    if (const auto* c = node->as<ir::Constant>()) return value = c->bits, true;
    if (const auto* p = node->as<ir::Parameter>()) return value = scalars[static_cast<std::size_t>(p->index)], true;
    if (node->as<ir::LinearBlock>()) return value = static_cast<std::uint64_t>(block), true;
    if (const auto* local = node->as<ir::Local>()) return evaluate(locals_.at(local->local), scalars, block, value);
    std::uint64_t a = 0, b = 0;
    if (const auto* cast = node->as<ir::Cast>()) {
        if (!is_integer(cast->value->type) || !evaluate(cast->value, scalars, block, a)) return false;
        return value = convert(cast->value->type, node->type, a), true;
    }
    const auto* binary = node->as<ir::Binary>();
    if (binary == nullptr) return false;
    const bool known_a = evaluate(binary->a, scalars, block, a), known_b = evaluate(binary->b, scalars, block, b);
    const bool conjunction = binary->op == ir::BinaryOp::bit_and && node->type == boolean;
    if (conjunction && ((known_a && a == 0) || (known_b && b == 0))) return value = 0, true;
    if (!known_a || !known_b) return false;
    return value = apply(binary->op, binary->a->type, a, b), true;
}

}  // namespace tessera::test

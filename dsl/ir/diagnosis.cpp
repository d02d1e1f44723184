#include "dsl/ir/diagnosis.hpp"

#include <string>

#include "dsl/base/error.hpp"
#include "dsl/ir/print.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::ir::detail {

bool has_arithmetic(Element type) {
    return type == f64 || type == f32 || type == f16 || type == bf16 || is_integer(type);
}

bool known_at_launch(Ref node) {
    NodeSet met;
    bool known = true;
    for_each_node(node, met, [&](Ref n) {
        known = known && n->scalar() &&
                (n->as<Constant>() || n->as<Parameter>() || n->as<Unary>() || n->as<Binary>() || n->as<Select>() ||
                 n->as<Cast>() || n->as<Bitcast>());
    });
    return known;
}

void Diagnosis::fail(const char* rule, Ref node, const char* why) const {
    constexpr std::size_t limit = 200;
    std::string text = "rule \"" + std::string(rule) + "\" is broken in program " + program.name;
    if (statement) {
        const std::string where = print_place(statement->place);
        text += ", statement \"" + print_line(program, *statement, limit) + "\"" +
                (where.empty() ? "" : " (" + where + ")");
    }
    if (node) {
        text += ", node " + std::to_string(node->id) + " \"" + print(program, node, limit) + "\" of type " +
                print_type(node->type, node->shape);
        std::string operands;
        for_each_operand(
            *node, [&](Ref o) { operands += (operands.empty() ? " over " : ", ") + print_type(o->type, o->shape); });
        text += operands;
    }
    throw InternalError(text + ": " + why);
}

}  // namespace tessera::ir::detail

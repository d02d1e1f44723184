#include "dsl/ir/report.hpp"

#include "dsl/base/error.hpp"
#include "dsl/ir/print_expression.hpp"

namespace tessera::ir {

namespace {

std::string coordinates_text(std::size_t rank, std::uint64_t place) {
    place &= (std::uint64_t{1} << rule_shift) - 1;
    if (rank == 1) return std::to_string(place);
    const std::uint64_t column = place & last_column;
    return std::to_string(place >> column_bits) + ", " + std::to_string(column) +
           (column == last_column ? " or beyond" : "");
}

}  // namespace

std::string sentence_of(const Program& program, const Offender& found) {
    require_internal(found.found() && static_cast<std::size_t>(found.rule()) < program.rules.size(),
                     "a launch reports a rule that its program does not have");
    const Rule& rule = program.rules[static_cast<std::size_t>(found.rule())];
    const TensorParam& tensor = program.tensors[static_cast<std::size_t>(rule.tensor)];
    const int bits = bits_of(rule.shown);
    const std::uint64_t code = bits == 64 ? found.value : found.value & ((std::uint64_t{1} << bits) - 1);
    return std::string(rule.place.file) + ":" + std::to_string(rule.place.line) + ": kernel " + program.name + ": " +
           tensor.name + "[" + coordinates_text(tensor.axes.size(), found.place) + "] " +
           (rule.valued ? "is " + detail::constant_text(rule.shown, code) + ", but " : "is refused: ") + rule.text +
           "; it is the first such element, and what the launch wrote cannot be relied on";
}

}  // namespace tessera::ir

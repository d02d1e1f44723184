#include "dsl/emit/text.hpp"

namespace tessera::emit {

namespace {

/// What an operand must bind as tightly as. Beside the language's rule: operators whose precedence few readers know
/// (and about which compilers warn) take only operands that read without it.
Precedence least_operand(Precedence p) {
    switch (p) {
        case Precedence::bit_or:
        case Precedence::bit_xor:
        case Precedence::bit_and:
        case Precedence::shift: return Precedence::unary;
        case Precedence::equality:
        case Precedence::relation: return Precedence::sum;
        case Precedence::logical_or:
        case Precedence::logical_and: return Precedence::equality;
        default: return p;
    }
}

}  // namespace

std::string within(const Text& text, Precedence least) {
    return text.precedence < least ? "(" + text.text + ")" : text.text;
}

Text infix(const Text& a, const char* op, const Text& b, Precedence precedence, bool grouping_free) {
    const bool bitwise = precedence == Precedence::bit_or || precedence == Precedence::bit_xor ||
                         precedence == Precedence::bit_and || precedence == Precedence::logical_or ||
                         precedence == Precedence::logical_and;
    const Precedence least = least_operand(precedence);
    const bool left_plain = bitwise && a.precedence == precedence;
    const bool right_plain = b.precedence == precedence && (grouping_free || bitwise) && !b.narrower;
    const bool right_equal = b.precedence == precedence && !right_plain;
    std::string out = left_plain ? a.text : within(a, least);
    out += ' ';
    out += op;
    out += ' ';
    out += right_plain ? b.text : (right_equal ? "(" + b.text + ")" : within(b, least));
    return {out, precedence};
}

Text prefix(const char* op, const Text& value) {
    const bool doubled = !value.text.empty() && value.text[0] == op[0];
    return {op + within(value, doubled ? Precedence::primary : Precedence::unary), Precedence::unary};
}

Text cast_text(const char* type, const Text& value) {
    return {"(" + std::string(type) + ")" + within(value, Precedence::unary), Precedence::unary};
}

Text conditional(const Text& condition, const Text& a, const Text& b) {
    return {within(condition, Precedence::logical_or) + " ? " + within(a, Precedence::logical_or) + " : " +
                within(b, Precedence::conditional),
            Precedence::conditional};
}

}  // namespace tessera::emit

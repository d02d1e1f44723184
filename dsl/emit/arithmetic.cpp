#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/c_types.hpp"
#include "dsl/emit/expression.hpp"
#include "dsl/emit/literal.hpp"

// Unary and binary operations on scalars. Everything is compiled without contraction, so plain operators keep IEEE's
// meaning.

namespace tessera::emit {

namespace {

using ir::BinaryOp;
using ir::UnaryOp;

bool is_comparison(BinaryOp op) { return op >= BinaryOp::eq; }
bool is_bit_operation(BinaryOp op) {
    return op == BinaryOp::bit_and || op == BinaryOp::bit_or || op == BinaryOp::bit_xor;
}

struct Operator {
    const char* text;
    Precedence precedence;
};

Operator operator_of(BinaryOp op) {
    switch (op) {
        case BinaryOp::add: return {"+", Precedence::sum};
        case BinaryOp::sub: return {"-", Precedence::sum};
        case BinaryOp::mul: return {"*", Precedence::product};
        case BinaryOp::div: return {"/", Precedence::product};
        case BinaryOp::mod: return {"%", Precedence::product};
        case BinaryOp::bit_and: return {"&", Precedence::bit_and};
        case BinaryOp::bit_or: return {"|", Precedence::bit_or};
        case BinaryOp::bit_xor: return {"^", Precedence::bit_xor};
        case BinaryOp::shl: return {"<<", Precedence::shift};
        case BinaryOp::shr: return {">>", Precedence::shift};
        case BinaryOp::eq: return {"==", Precedence::equality};
        case BinaryOp::ne: return {"!=", Precedence::equality};
        case BinaryOp::lt: return {"<", Precedence::relation};
        case BinaryOp::le: return {"<=", Precedence::relation};
        case BinaryOp::gt: return {">", Precedence::relation};
        case BinaryOp::ge: return {">=", Precedence::relation};
        case BinaryOp::div_bounded:
        case BinaryOp::max_magnitude:
        case BinaryOp::min_nan:
        case BinaryOp::max_nan:
        case BinaryOp::min:
        case BinaryOp::max: break;
    }
    throw InternalError("an operation that has no operator");
}

[[noreturn]] void refuse(const char* what, Element type) {
    throw InternalError(fmt::format("{} of {} has no meaning", what, name_of(type)));
}

/// Functions of f32 alone.
const char* library_function(UnaryOp op) {
    switch (op) {
        case UnaryOp::exp: return "expf";
        case UnaryOp::sqrt: return "sqrtf";
        case UnaryOp::log1p: return "log1pf";
        default: return nullptr;
    }
}

/// Of two operands of one type, one may take its relaxed spelling: the other says the type. Literals go first.
void relax(Text& a, Text& b) {
    const bool first = a.can_relax() && (!b.can_relax() || (a.literal && !b.literal));
    Text& chosen = first ? a : b;
    chosen = chosen.relax();
}

}  // namespace

/// Wraps a result of 32-bit arithmetic into a small integer type.
Text Expressions::in_range(Element type, const Text& value) {
    if (!is_small_integer(type)) return value;
    if (is_signed_integer(type)) return cast_text(storage_type(type), value);
    return infix(value, "&", {bits_of(type) == 8 ? "0xffu" : "0xffffu"}, Precedence::bit_and);
}

Text Expressions::unary(UnaryOp op, Element type, const Text& value) {
    if (const char* function = library_function(op)) {
        if (type != f32) refuse(function, type);
        return call(function, value);
    }
    if (type == boolean) {
        if (op != UnaryOp::bit_not) refuse("a sign", type);
        return prefix("!", value);
    }
    if (is_narrow_float(type)) {
        if (op != UnaryOp::rsqrt) return packed_unary(op, type, 1, value);
        const Text root = call("rsqrtf", widen(type, value, 0));
        return narrow(type, {&root, 1});
    }
    switch (op) {
        case UnaryOp::popcount:
            if (type != u32) refuse("the number of set bits", type);
            return cast_text("unsigned", call("__popc", value));
        case UnaryOp::neg: return in_range(type, prefix("-", value));
        case UnaryOp::bit_not:
            if (is_float(type)) refuse("the complement", type);
            return in_range(type, prefix("~", value));
        case UnaryOp::rsqrt:
            if (!is_float(type)) refuse("the square root", type);
            return call(type == f64 ? "rsqrt" : "rsqrtf", value);
        case UnaryOp::abs:
        case UnaryOp::exp:
        case UnaryOp::sqrt:
        case UnaryOp::log1p: break;
    }
    if (is_float(type)) return call(type == f64 ? "fabs" : "fabsf", value);
    if (is_unsigned_integer(type)) return value;
    return in_range(type, call(type == i64 ? "llabs" : "abs", value));
}

Text Expressions::compare(BinaryOp op, const Text& a, const Text& b) {
    const Operator o = operator_of(op);
    return infix(a, o.text, b, o.precedence);
}

Text Expressions::boolean_binary(BinaryOp op, const Text& a, const Text& b) {
    switch (op) {
        case BinaryOp::bit_and:
        case BinaryOp::min: return infix(a, "&&", b, Precedence::logical_and);
        case BinaryOp::bit_or:
        case BinaryOp::max: return infix(a, "||", b, Precedence::logical_or);
        case BinaryOp::bit_xor: return infix(a, "!=", b, Precedence::equality);
        default: break;
    }
    if (!is_comparison(op)) refuse("arithmetic", boolean);
    return compare(op, a, b);
}

Text Expressions::float_binary(BinaryOp op, Element type, const Text& a, const Text& b) {
    const bool wide = type == f64;
    if (op == BinaryOp::div_bounded) return call(helpers_.use("divide_bounded"), a, b);
    switch (op) {
        case BinaryOp::min_nan: return call(helpers_.use("min_nan"), a, b);
        case BinaryOp::max_nan: return call(helpers_.use("max_nan"), a, b);
        case BinaryOp::min: return call(wide ? "fmin" : "fminf", a, b);
        case BinaryOp::max: return call(wide ? "fmax" : "fmaxf", a, b);
        case BinaryOp::mod: return call(wide ? "fmod" : "fmodf", a, b);
        default: break;
    }
    if (is_bit_operation(op) || op == BinaryOp::shl || op == BinaryOp::shr) refuse("a bit operation", type);
    const Operator o = operator_of(op);
    return infix(a, o.text, b, o.precedence);
}

Text Expressions::integer_binary(BinaryOp op, Element type, const Text& left, const Text& right) {
    Text a = left, b = right;
    const Operator o = op == BinaryOp::min || op == BinaryOp::max ? Operator{} : operator_of(op);
    switch (op) {
        case BinaryOp::min: return call("min", a, b);
        case BinaryOp::max: return call("max", a, b);
        case BinaryOp::shl:
        case BinaryOp::shr:
            if (b.literal) b = b.relax();
            break;
        default: relax(a, b); break;
    }
    const Text result = infix(a, o.text, b, o.precedence, op == BinaryOp::add);
    return is_comparison(op) || is_bit_operation(op) ? result : in_range(type, result);
}

Text Expressions::binary(BinaryOp op, Element type, const Text& a, const Text& b) {
    if (op == BinaryOp::div_bounded && type != f32) refuse("bounded division", type);
    if (type == boolean) return boolean_binary(op, a, b);
    if (is_integer(type)) return integer_binary(op, type, a, b);
    if (is_narrow_float(type)) {
        if (is_comparison(op)) return compare(op, widen(type, a, 0), widen(type, b, 0));
        const bool native = (type == bf16 || type == f16) && op != BinaryOp::div && op != BinaryOp::mod;
        if (native) return packed_binary(op, type, a, b);
        const Text result = float_binary(op, f32, widen(type, a, 0), widen(type, b, 0));
        return narrow(type, {&result, 1});
    }
    const Text result = float_binary(op, type, a, b);
    return type == tf32 && !is_comparison(op) ? call(helpers_.use("tf32_from_f32"), result) : result;
}

/// Knows more than binary(): what is a constant.
Text Expressions::binary_node(const ir::Node& node, int lane) {
    const auto& op = *node.as<ir::Binary>();
    const Element type = op.a->type;
    const auto operand = [&](ir::Ref ref) {
        const auto* constant = ref->scalar() ? ref->as<ir::Constant>() : nullptr;
        return constant != nullptr && is_bit_operation(op.op) ? bit_literal(type, constant->bits) : element(ref, lane);
    };
    const Text a = operand(op.a), b = operand(op.b);
    const bool negative = is_signed_integer(type) && b.literal && b.text[0] == '-' && b.precedence == Precedence::unary;
    if (op.op != BinaryOp::add || !negative) return binary(op.op, type, a, b);
    const auto unsign = [](const std::string& text) { return text.empty() ? text : text.substr(1); };
    const Text magnitude{unsign(b.text), Precedence::primary, unsign(b.relaxed), Precedence::primary, true};
    return binary(BinaryOp::sub, type, a, magnitude);
}

}  // namespace tessera::emit

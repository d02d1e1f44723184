#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/c_types.hpp"
#include "dsl/emit/expression.hpp"
#include "dsl/emit/literal.hpp"

// Conversions by value and by bits. Narrow floats are reached by way of f32, but where a format holds all values of
// another and a word of it can be made at once. Where f32 cannot hold the source, it is rounded to odd first, so that
// the result is rounded once.

namespace tessera::emit {

Text Expressions::widen(Element from, const Text& word, int lane) {
    const Text index{std::to_string(lane)};
    switch (from) {
        case Element::bf16:
            if (lane == 0) return call("__uint_as_float", infix(word, "<<", {"16"}, Precedence::shift));
            return call("__uint_as_float", infix(word, "&", {"0xffff0000u"}, Precedence::bit_and));
        case Element::f16: return call(helpers_.use("f32_from_f16"), word, index);
        case Element::e4m3: return call(helpers_.use("f32_from_e4m3"), word, index);
        case Element::e5m2: return call(helpers_.use("f32_from_e5m2"), word, index);
        case Element::e2m1: return call(helpers_.use("f32_from_e2m1"), word, index);
        case Element::e5m6:
            return call(helpers_.use("f32_from_f16"), infix(word, "<<", {"4"}, Precedence::shift), index);
        case Element::ue8m0: {
            const Text shifted = lane == 0 ? word : infix(word, ">>", {std::to_string(8 * lane)}, Precedence::shift);
            const Text exponent = lane == 3 ? shifted : infix(shifted, "&", {"0xffu"}, Precedence::bit_and);
            return call("__uint_as_float", infix(exponent, "<<", {"23"}, Precedence::shift));
        }
        default: throw InternalError(fmt::format("{} has no conversion to f32", name_of(from)));
    }
}

Text Expressions::as_f32(Piece piece) {
    const Element type = piece.node->type;
    if (type == f32 || type == tf32) return element(piece.node, piece.lane);
    const Bits bits = bits_of_piece(piece);
    if (!bits.constant) return widen(type, bits.word, bits.bit / register_bits_of(type));
    if (type == bf16) return literal(f32, bits.value << 16);
    return widen(type, word_literal(static_cast<std::uint32_t>(bits.value)), 0);
}

/// An f32 that rounds to any narrower float as the value itself does.
Text Expressions::f32_to_round(Piece piece) {
    const Element type = piece.node->type;
    if (is_narrow_float(type) || type == f32 || type == tf32) return as_f32(piece);
    const Text value = element(piece.node, piece.lane);
    if (type == f64) return call(helpers_.use("f32_odd_from_f64"), value);
    if (type == u64) return call(helpers_.use("f32_odd_from_u64"), value);
    if (bits_of(type) >= 32) return call(helpers_.use("f32_odd_from_i64"), value);
    return number(f32, type, value);
}

/// Where the bits are after a cast that loses nothing and turns a word, or a part of it, at once.
std::optional<Expressions::Bits> Expressions::expanded(Element to, Piece from) {
    const Element type = from.node->type;
    const bool halves = to == bf16 || to == f16;
    const bool known =
        (type == e2m1 && (halves || to == e4m3)) || (to == f16 && (type == e4m3 || type == e5m2 || type == e5m6));
    if (!known) return std::nullopt;
    const Bits source = bits_of_piece(from);
    const Text word = source.constant ? word_literal(static_cast<std::uint32_t>(source.value)) : source.word;
    const int lane = source.bit / register_bits_of(type), group = halves ? 2 : 4;
    if (type == e5m6) return Bits{infix(word, "<<", {"4"}, Precedence::shift), 16 * lane};
    const char* helper = to == e4m3     ? "e4m3x4_from_e2m1"
                         : to == bf16   ? "bf16x2_from_e2m1"
                         : type == e2m1 ? "f16x2_from_e2m1"
                         : type == e4m3 ? "f16x2_from_e4m3"
                                        : "f16x2_from_e5m2";
    return Bits{call(helpers_.use(helper), word, Text{std::to_string(lane / group)}), lane % group * bits_of(to)};
}

/// The helper that makes this many codes.
std::string Expressions::to_e2m1(int codes, Element from, bool bounded) {
    return helpers_.use(fmt::format("e2m1x{}_from_{}{}", codes, bounded ? "bounded_" : "", name_of(from)));
}

/// Up to 32 bits of narrow floats.
Text Expressions::narrow(Element to, std::span<const Text> values, bool bounded) {
    const Text zero{"0.0f"};
    const auto value = [&](std::size_t i) { return i < values.size() ? values[i] : zero; };
    switch (to) {
        case Element::bf16: return call(helpers_.use("bf16x2_from_f32"), value(0), value(1));
        case Element::f16: return call(helpers_.use("f16x2_from_f32"), value(0), value(1));
        case Element::e5m6:
            if (values.size() == 1) return call(helpers_.use("e5m6_from_f32"), value(0));
            return call(helpers_.use("e5m6x2_from_f32"), value(0), value(1));
        case Element::e2m1: {
            const auto name = [&](int codes) { return to_e2m1(codes, f32, bounded); };
            if (values.size() == 1) return call(name(1), value(0));
            if (values.size() == 2) return call(name(2), value(0), value(1));
            if (values.size() <= 4) return call(name(4), value(0), value(1), value(2), value(3));
            return call(name(8), value(0), value(1), value(2), value(3), value(4), value(5), value(6), value(7));
        }
        case Element::e4m3:
        case Element::e5m2: break;
        default: throw InternalError(fmt::format("there is no rounding from f32 to {}", name_of(to)));
    }
    const bool pair = values.size() <= 2;
    if (pair) return call(helpers_.use(to == e4m3 ? "e4m3x2_from_f32" : "e5m2x2_from_f32"), value(0), value(1));
    return call(helpers_.use(to == e4m3 ? "e4m3x4_from_f32" : "e5m2x4_from_f32"), value(0), value(1), value(2),
                value(3));
}

/// e2m1 from words of two bf16 or f16.
Text Expressions::narrow_halves(Element half, std::span<const Text> words, bool bounded) {
    const Text zero{"0u"};
    const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : zero; };
    const auto name = [&](int codes) { return to_e2m1(codes, half, bounded); };
    if (words.size() == 1) return call(name(2), word(0));
    if (words.size() == 2) return call(name(4), word(0), word(1));
    return call(name(8), word(0), word(1), word(2), word(3));
}

/// e4m3 or e5m2 from words of two f16.
Text Expressions::narrow_f16(Element to, std::span<const Text> words) {
    if (words.size() == 1) return call(helpers_.use(to == e4m3 ? "e4m3x2_from_f16" : "e5m2x2_from_f16"), words[0]);
    return call(helpers_.use(to == e4m3 ? "e4m3x4_from_f16" : "e5m2x4_from_f16"), words[0], words[1]);
}

Text Expressions::float_to_integer(Element to, Element from, const Text& value) {
    const bool wide = from == f64;
    const bool sign = is_signed_integer(to);
    const int bits = bits_of(to);
    const char* target = bits == 64 ? (sign ? "ll" : "ull") : (sign ? "int" : "uint");
    const Text whole = call(fmt::format("__{}2{}_rz", wide ? "double" : "float", target), value);
    if (bits >= 32) return whole;
    if (!sign) return call("min", whole, Text{bits == 8 ? "255u" : "65535u"});
    return call("min", call("max", whole, Text{bits == 8 ? "-128" : "-32768"}), Text{bits == 8 ? "127" : "32767"});
}

/// Between the types that C++ has.
Text Expressions::number(Element to, Element from, const Text& value) {
    if (to == boolean) {
        const char* zero = from == f64 ? "0.0" : is_float(from) ? "0.0f" : "0";
        return infix(value, "!=", {zero}, Precedence::equality);
    }
    if (is_float(to)) {
        if (from != boolean) return cast_text(to == f64 ? "double" : "float", value);
        return to == f64 ? conditional(value, {"1.0"}, {"0.0"}) : conditional(value, {"1.0f"}, {"0.0f"});
    }
    if (is_float(from)) return float_to_integer(to, from, value);
    const bool fits = bits_of(from) < bits_of(to) || from == to || from == boolean;
    const Text converted =
        std::string(scalar_type(from)) == scalar_type(to) ? value : cast_text(scalar_type(to), value);
    if (!fits && is_small_integer(to)) return in_range(to, is_signed_integer(to) ? value : converted);
    if (is_small_integer(to) && is_unsigned_integer(to) && is_signed_integer(from)) return in_range(to, converted);
    if (to != i64 || from == boolean || bits_of(from) == 64) return converted;
    return {converted.text, converted.precedence, value.text, value.precedence, value.literal};
}

Text Expressions::cast(Element to, Piece from, bool bounded) {
    const Element type = from.node->type;
    if (type == to) return element(from.node, from.lane);
    if (const auto bits = expanded(to, from))
        return bits->bit == 0 ? bits->word : infix(bits->word, ">>", {std::to_string(bits->bit)}, Precedence::shift);
    if (to == e2m1 && (type == bf16 || type == f16)) {
        const Text word = element(from.node, from.lane);
        return narrow_halves(type, {&word, 1}, bounded);
    }
    if (to == ue8m0) return infix(call("__float_as_uint", f32_to_round(from)), ">>", {"23"}, Precedence::shift);
    if (to == tf32 && is_narrow_float(type)) return as_f32(from);  // it holds every value of these
    if (to == tf32) return call(helpers_.use("tf32_from_f32"), f32_to_round(from));
    if (is_narrow_float(to)) {
        const Text value = f32_to_round(from);
        return narrow(to, {&value, 1}, bounded);
    }
    if (!is_narrow_float(type) && type != tf32) return number(to, type, element(from.node, from.lane));
    const Text value = as_f32(from);
    return to == f32 ? value : number(to, f32, value);
}

Text Expressions::bitcast(Element to, Piece from) {
    const ir::Node& node = *from.node;
    const Element type = node.type;
    const bool word_to_scalar = node.lanes() > 1 && bits_of(to) == bits_of(type) * node.lanes();
    require_internal(word_to_scalar || bits_of(to) == bits_of(type), "the widths of a bitcast differ");
    const Element source = word_to_scalar ? u32 : type;
    const Text value = word_to_scalar ? packed(node) : element(&node, from.lane);
    if (source == to) return value;
    if (bits_of(to) == 64) {
        if (to == f64) return call("__longlong_as_double", source == i64 ? value : cast_text("long long", value));
        const Text integer = source == f64 ? call("__double_as_longlong", value) : value;
        return source == f64 && to == i64 ? integer : cast_text(scalar_type(to), integer);
    }
    if (bits_of(to) == 32) {
        const bool to_float = is_float(to), from_float = is_float(source);
        if (to_float && from_float) return value;
        if (to_float) return call(source == i32 ? "__int_as_float" : "__uint_as_float", value);
        if (from_float) return call(to == i32 ? "__float_as_int" : "__float_as_uint", value);
        return cast_text(scalar_type(to), value);
    }
    if (to == boolean) return infix(value, "!=", {"0"}, Precedence::equality);
    const bool is_unsigned = is_narrow_float(source) || is_unsigned_integer(source);
    const Text raw = is_unsigned ? value : cast_text("unsigned", value);
    return is_integer(to) ? in_range(to, raw) : raw;
}

}  // namespace tessera::emit

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/c_types.hpp"
#include "dsl/emit/expression.hpp"
#include "dsl/emit/literal.hpp"

// Packed words: what has an instruction for the whole word uses it, everything else is taken apart and put together.

namespace tessera::emit {

namespace {

using ir::BinaryOp;
using ir::UnaryOp;

/// Through Lane and Pack to the node that makes the element.
Piece origin(Piece piece) {
    for (;;) {
        if (const auto* lane = piece.node->as<ir::Lane>())
            piece = {lane->value, lane->lane};
        else if (const auto* pack = piece.node->as<ir::Pack>())
            piece = {pack->elements[piece.node->lanes() == 1 ? 0 : static_cast<std::size_t>(piece.lane)], 0};
        else
            return piece;
    }
}

bool has_conversion(Element e) { return e == bf16 || e == f16 || e == e4m3 || e == e5m2 || e == e2m1 || e == e5m6; }

bool is_packed_operation(BinaryOp op, Element type) {
    if (is_integer(type) || type == boolean)
        return op == BinaryOp::bit_and || op == BinaryOp::bit_or || op == BinaryOp::bit_xor;
    if (type != bf16 && type != f16) return false;
    return op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul || op == BinaryOp::min ||
           op == BinaryOp::max || op == BinaryOp::max_magnitude || op == BinaryOp::min_nan || op == BinaryOp::max_nan;
}

/// `lanes` times the element's bit pattern.
std::uint32_t repeated(std::uint32_t element, int bits, int lanes) {
    std::uint32_t word = 0;
    for (int i = 0; i < lanes; ++i) word |= element << (bits * i);
    return word;
}

}  // namespace

bool Expressions::has_word_form(const ir::Node& node) const {
    if (const auto* op = node.as<ir::Unary>())
        return is_integer(node.type) ? op->op == UnaryOp::bit_not
                                     : has_conversion(node.type) && op->op != UnaryOp::rsqrt;
    if (const auto* op = node.as<ir::Binary>())
        return op->a->type == node.type && is_packed_operation(op->op, node.type);
    if (const auto* op = node.as<ir::Bitcast>())
        return bits_of(op->value->type) * op->value->lanes() == bits_of(node.type) * node.lanes();
    if (node.as<ir::Lookup>() != nullptr) return node.lanes() * bits_of(node.type) == 32;
    return node.as<ir::Register>() != nullptr || node.as<ir::Local>() != nullptr || node.as<ir::Shuffle>() != nullptr;
}

Text Expressions::packed(const ir::Node& node) {
    const int lanes = node.lanes();
    require_internal(lanes * register_bits_of(node.type) <= 32, "a packed word has more than 32 bits");
    if (!has_word_form(node)) {
        std::vector<Piece> pieces;
        for (int i = 0; i < lanes; ++i) pieces.push_back({&node, i});
        return pack(node.type, pieces);
    }
    if (const auto* op = node.as<ir::Unary>()) return packed_unary(op->op, node.type, lanes, word(op->value));
    if (const auto* op = node.as<ir::Binary>()) return packed_binary(op->op, node.type, word(op->a), word(op->b));
    if (const auto* op = node.as<ir::Bitcast>())
        return op->value->lanes() > 1 || bits_of(op->value->type) < 32 ? word(op->value) : bitcast(u32, {op->value, 0});
    if (const auto* op = node.as<ir::Shuffle>())
        return call("__shfl_xor_sync", Text{"0xffffffffu"}, word(op->value), Text{std::to_string(op->mask)});
    if (node.as<ir::Lookup>() != nullptr) return lookup(node);
    return leaf(node);
}

Text Expressions::packed_unary(UnaryOp op, Element type, int lanes, const Text& word) {
    const int bits = register_bits_of(type);
    if (op == UnaryOp::bit_not) return prefix("~", word);
    require_internal(has_conversion(type), "a sign of an element type that has none");
    const std::uint32_t sign = 1u << (bits_of(type) - 1);
    const std::uint32_t mask = repeated(op == UnaryOp::neg ? sign : sign - 1, bits, lanes);
    const Text constant{fmt::format("0x{:0{}x}u", mask, bits * lanes / 4)};
    return op == UnaryOp::neg ? infix(word, "^", constant, Precedence::bit_xor)
                              : infix(word, "&", constant, Precedence::bit_and);
}

Text Expressions::packed_binary(BinaryOp op, Element type, const Text& a, const Text& b) {
    const bool brain = type == bf16;
    switch (op) {
        case BinaryOp::bit_and: return infix(a, "&", b, Precedence::bit_and);
        case BinaryOp::bit_or: return infix(a, "|", b, Precedence::bit_or);
        case BinaryOp::bit_xor: return infix(a, "^", b, Precedence::bit_xor);
        case BinaryOp::add: return call(helpers_.use(brain ? "add_bf16x2" : "add_f16x2"), a, b);
        case BinaryOp::sub: return call(helpers_.use(brain ? "sub_bf16x2" : "sub_f16x2"), a, b);
        case BinaryOp::mul: return call(helpers_.use(brain ? "mul_bf16x2" : "mul_f16x2"), a, b);
        case BinaryOp::min: return call(helpers_.use(brain ? "min_bf16x2" : "min_f16x2"), a, b);
        case BinaryOp::max: return call(helpers_.use(brain ? "max_bf16x2" : "max_f16x2"), a, b);
        case BinaryOp::min_nan: return call(helpers_.use(brain ? "min_nan_bf16x2" : "min_nan_f16x2"), a, b);
        case BinaryOp::max_nan: return call(helpers_.use(brain ? "max_nan_bf16x2" : "max_nan_f16x2"), a, b);
        case BinaryOp::max_magnitude:
            return call(helpers_.use(brain ? "max_magnitude_bf16x2" : "max_magnitude_f16x2"), a, b);
        default: throw InternalError(fmt::format("a packed operation that {} does not have", name_of(type)));
    }
}

Expressions::Bits Expressions::bits_of_piece(Piece from) {
    const Piece piece = origin(from);
    const ir::Node& node = *piece.node;
    const int bits = bits_of(node.type), lane = node.lanes() == 1 ? 0 : piece.lane;
    if (const auto* constant = node.as<ir::Constant>())
        return {{}, 0, true, constant->bits & ((std::uint64_t{1} << bits) - 1)};
    if (const auto* cast_op = node.as<ir::Cast>())
        if (const auto made = expanded(node.type, {cast_op->value, cast_op->value->lanes() == 1 ? 0 : lane}))
            return *made;
    const auto* bitcast_op = node.as<ir::Bitcast>();
    if (bitcast_op != nullptr && bits_of(bitcast_op->value->type) == bits)
        return bits_of_piece({bitcast_op->value, lane});
    if (node.lanes() > 1 && has_word_form(node)) return {packed(node), register_bits_of(node.type) * lane, false, 0};
    if (node.as<ir::Register>() != nullptr) return {leaf(node), 0, false, 0};
    if (node.lanes() == 1) return {word(&node), 0, false, 0};
    return {element(&node, lane), 0, false, 0};
}

/// Where all are rounded from other values, all at once.
std::optional<Text> Expressions::pack_casts(Element type, std::span<const Piece> pieces) {
    if (!has_conversion(type)) return std::nullopt;
    std::vector<Piece> sources;
    const auto* const first = origin(pieces[0]).node->as<ir::Cast>();
    const Element half = first ? first->value->type : f32;
    const bool bytes = half == f16 && pieces.size() > 1 && (type == e4m3 || type == e5m2);
    bool bounded = true, all_halves = bytes || (type == e2m1 && (half == bf16 || half == f16));
    for (const Piece& piece : pieces) {
        const Piece made = origin(piece);
        const auto* op = made.node->as<ir::Cast>();
        if (op == nullptr || op->value->type == type) return std::nullopt;
        const Piece source{op->value, op->value->lanes() == 1 ? 0 : made.lane};
        if (expanded(type, source)) return std::nullopt;
        sources.push_back(source);
        all_halves = all_halves && op->value->type == half;
        bounded = bounded && op->bounded;
    }
    std::vector<Text> values;
    if (all_halves) {
        const std::span<const Piece> halves = sources;
        for (std::size_t i = 0; i < halves.size(); i += 2)
            values.push_back(pack(half, halves.subspan(i, std::min<std::size_t>(2, halves.size() - i))));
        return bytes ? narrow_f16(type, values) : narrow_halves(half, values, bounded);
    }
    for (const Piece& source : sources) values.push_back(f32_to_round(source));
    return narrow(type, values, bounded);
}

/// Where both halves are truths of one comparison of such halves, as 1 or 0.
std::optional<Text> Expressions::pack_comparisons(Element type, std::span<const Piece> pieces) {
    if ((type != bf16 && type != f16) || pieces.size() != 2) return std::nullopt;
    std::vector<Piece> left, right;
    std::optional<BinaryOp> common;
    for (const Piece& piece : pieces) {
        const auto* truth = origin(piece).node->as<ir::Cast>();
        const auto* op = truth ? truth->value->as<ir::Binary>() : nullptr;
        if (op == nullptr || truth->value->lanes() > 1 || op->op < BinaryOp::eq || op->a->type != type)
            return std::nullopt;
        if (common && *common != op->op) return std::nullopt;
        common = op->op;
        left.push_back({op->a, 0});
        right.push_back({op->b, 0});
    }
    static constexpr const char* names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    const char* const name = names[static_cast<int>(*common) - static_cast<int>(BinaryOp::eq)];
    return call(helpers_.use(fmt::format("one_if_{}_{}x2", name, name_of(type))), pack(type, left), pack(type, right));
}

/// Where both halves are results of one operation that has a packed form.
std::optional<Text> Expressions::pack_operations(Element type, std::span<const Piece> pieces) {
    if ((type != bf16 && type != f16) || pieces.size() != 2) return std::nullopt;
    std::vector<Piece> left, right;
    std::optional<BinaryOp> common;
    for (const Piece& piece : pieces) {
        const Piece made = origin(piece);
        const auto* op = made.node->as<ir::Binary>();
        if (op == nullptr || made.node->lanes() > 1 || !is_packed_operation(op->op, type)) return std::nullopt;
        if (common && *common != op->op) return std::nullopt;
        common = op->op;
        left.push_back({op->a, 0});
        right.push_back({op->b, 0});
    }
    return packed_binary(*common, type, pack(type, left), pack(type, right));
}

Text Expressions::pack(Element type, std::span<const Piece> pieces) {
    const int bits = register_bits_of(type), lanes = static_cast<int>(pieces.size());
    require_internal(lanes > 0 && lanes * bits <= 32, "a packed word has more than 32 bits");
    if (const auto truths = pack_comparisons(type, pieces)) return *truths;
    if (const auto casts = pack_casts(type, pieces)) return *casts;
    if (const auto operations = pack_operations(type, pieces)) return *operations;
    if (bits == 32) return element(pieces[0].node, pieces[0].lane);
    std::vector<Bits> parts;
    for (const Piece& piece : pieces) parts.push_back(bits_of_piece(piece));
    if (bits < 8) return select_nibbles(parts);
    std::vector<Bits> bytes;
    for (const Bits& part : parts)
        for (int i = 0; i < bits / 8; ++i)
            bytes.push_back({part.word, part.bit + 8 * i, part.constant, part.value >> (8 * i) & 0xff});
    return select_bytes(bytes);
}

}  // namespace tessera::emit

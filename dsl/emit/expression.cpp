#include "dsl/emit/expression.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/c_types.hpp"
#include "dsl/emit/literal.hpp"

namespace tessera::emit {

namespace {

const std::string& at(const std::vector<std::string>& names, int index) {
    require_internal(index >= 0 && index < static_cast<int>(names.size()), "the program names something it lacks");
    return names[static_cast<std::size_t>(index)];
}

/// What a launch passes may be narrower than the scalar.
Text parameter(Element type, const std::string& name) {
    if (type == boolean) return infix({name}, "!=", {"0"}, Precedence::equality);
    if (bits_of(type) < 32 && !is_signed_integer(type)) return cast_text("unsigned", {name});
    return {name};
}

}  // namespace

Text Expressions::leaf(const ir::Node& node) {
    if (const auto* parameter_op = node.as<ir::Parameter>())
        return parameter(node.type, at(names_.scalars, parameter_op->index));
    if (const auto* index = node.as<ir::LoopIndex>()) return {at(names_.loops, index->loop)};
    if (const auto* local = node.as<ir::Local>()) return {at(names_.locals, local->local)};
    if (const auto* word = node.as<ir::Register>())
        return {at(names_.arrays, word->array) + "[" + index_plus(*this, word->index, 0).text + "]"};
    if (node.as<ir::ThreadIndex>() != nullptr) return uses_thread_ = true, Text{Names::thread};
    if (node.as<ir::LinearBlock>() != nullptr) return uses_block_ = true, Text{Names::block};
    throw InternalError(fmt::format("node {} belongs to the recorded stage and cannot be printed as CUDA", node.id));
}

Text Expressions::element(ir::Ref ref, int lane) {
    const ir::Node& node = *ref;
    require_internal(lane >= 0 && (lane < node.lanes() || node.lanes() == 1), "a lane beyond the end of its word");
    if (const auto* picked = node.as<ir::Lane>()) return element(picked->value, picked->lane);
    if (const auto* pack_op = node.as<ir::Pack>())
        return scalar(pack_op->elements[node.lanes() == 1 ? 0 : static_cast<std::size_t>(lane)]);
    if (const auto* constant = node.as<ir::Constant>()) return literal(node.type, constant->bits);
    if (node.lanes() > 1 && has_word_form(node)) return from_word(node, lane);
    if (node.as<ir::Register>() != nullptr && bits_of(node.type) < 32) return from_word(node, 0);
    return computed(node, lane);
}

/// One element of a word; lane 0 for the lone element of a register.
Text Expressions::from_word(const ir::Node& node, int lane) {
    const Text whole = node.lanes() > 1 ? packed(node) : leaf(node);
    const int bits = register_bits_of(node.type), shift = bits * lane;
    const Text shifted = shift == 0 ? whole : infix(whole, ">>", {std::to_string(shift)}, Precedence::shift);
    if (is_narrow_float(node.type)) return shifted;
    if (is_signed_integer(node.type)) return cast_text(storage_type(node.type), shifted);
    const bool nothing_above = shift + bits == 32;
    const Text value =
        nothing_above ? shifted : infix(shifted, "&", {bits == 8 ? "0xffu" : "0xffffu"}, Precedence::bit_and);
    return node.type == boolean ? infix(value, "!=", {"0u"}, Precedence::equality) : value;
}

/// An element of a node that stands for an operation.
Text Expressions::computed(const ir::Node& node, int lane) {
    if (const auto* op = node.as<ir::Unary>()) return unary(op->op, node.type, element(op->value, lane));
    if (node.as<ir::Binary>() != nullptr) return binary_node(node, lane);
    if (const auto* op = node.as<ir::Fma>())
        return call("__fmaf_rn", element(op->a, lane), element(op->b, lane), element(op->c, lane));
    if (const auto* op = node.as<ir::Select>())
        return conditional(element(op->condition, lane), element(op->a, lane), element(op->b, lane));
    if (const auto* op = node.as<ir::Cast>()) return cast(node.type, {op->value, lane}, op->bounded);
    if (const auto* op = node.as<ir::Bitcast>()) return bitcast(node.type, {op->value, lane});
    if (const auto* op = node.as<ir::Shuffle>()) {
        const Text value = node.type == boolean ? cast_text("int", scalar(op->value)) : scalar(op->value);
        const Text moved = call("__shfl_xor_sync", Text{"0xffffffffu"}, value, Text{std::to_string(op->mask)});
        return node.type == boolean ? infix(moved, "!=", {"0"}, Precedence::equality) : moved;
    }
    if (const auto* op = node.as<ir::WarpReduce>()) return warp_reduce(*op);
    if (node.as<ir::Lookup>() != nullptr) return lookup(node);
    if (const auto* op = node.as<ir::Match>()) return call("__match_any_sync", Text{"0xffffffffu"}, scalar(op->value));
    return leaf(node);
}

Text Expressions::warp_reduce(const ir::WarpReduce& op) {
    const bool truth = op.value->type == boolean, largest = op.op == ir::ReduceOp::max;
    const char* const name = truth                           ? (largest ? "__any_sync" : "__all_sync")
                             : op.op == ir::ReduceOp::sum    ? "__reduce_add_sync"
                             : op.op == ir::ReduceOp::bit_or ? "__reduce_or_sync"
                             : largest                       ? "__reduce_max_sync"
                                                             : "__reduce_min_sync";
    const Text all = call(name, Text{"0xffffffffu"}, scalar(op.value));
    if (op.op == ir::ReduceOp::bit_or && op.value->type == i32) return cast_text("int", all);  // it has no signed form
    return truth ? infix(all, "!=", {"0"}, Precedence::equality) : all;
}

/// A whole word of results at once, or one.
Text Expressions::lookup(const ir::Node& node) {
    const auto& op = *node.as<ir::Lookup>();
    const bool one = node.lanes() == 1, bytes = op.table.size() == 2;
    const auto helper = [&](const char* type) {
        return helpers_.use(std::string(type) + (one ? "_lookup" : bytes ? "x4_lookup" : "x8_lookup"));
    };
    std::vector<Text> arguments;
    if (one || !bytes) {
        arguments.push_back(word(op.index));
    } else {
        const auto [codes, half] = four_codes(*op.index);
        arguments.push_back(codes);
        arguments.push_back({std::to_string(half)});
    }
    for (ir::Ref entries : op.table) arguments.push_back(word(entries));
    if (node.type == u8) return call(helper("u8"), arguments);
    const Text mask{one ? "0x8u" : bytes ? "0x80808080u" : "0x88888888u"};
    arguments.push_back(op.signs ? conditional(element(op.signs, 0), mask, {"0u"}) : mask);
    return call(helper(bytes ? "e4m3" : "e2m1"), arguments);
}

/// The word that four codes stand in side by side, and the half of it that they are.
std::pair<Text, int> Expressions::four_codes(const ir::Node& index) {
    if (const auto* pack_op = index.as<ir::Pack>()) {
        std::vector<Bits> bits;
        for (ir::Ref element : pack_op->elements) bits.push_back(bits_of_piece({element, 0}));
        bool together = !bits[0].constant && bits[0].bit % 16 == 0;
        for (int i = 1; i < 4 && together; ++i) {
            const Bits& next = bits[static_cast<std::size_t>(i)];
            together = !next.constant && next.word.text == bits[0].word.text && next.bit == bits[0].bit + 4 * i;
        }
        if (together) return {bits[0].word, bits[0].bit / 16};
    }
    return {packed(index), 0};
}

Text Expressions::word(ir::Ref ref) {
    if (ref->lanes() > 1) return packed(*ref);
    const Text value = scalar(ref);
    const bool convert = ref->type == boolean || (is_small_integer(ref->type) && is_signed_integer(ref->type));
    return convert ? cast_text("unsigned", value) : value;
}

Text index_plus(Expressions& expressions, ir::Ref index, std::int64_t k) {
    if (const auto* constant = index->as<ir::Constant>())
        return literal(index->type, static_cast<std::uint64_t>(static_cast<std::int32_t>(constant->bits) + k));
    const auto* sum = index->as<ir::Binary>();
    if (sum != nullptr && sum->op == ir::BinaryOp::add)
        if (const auto* constant = sum->b->as<ir::Constant>())
            return index_plus(expressions, sum->a, static_cast<std::int32_t>(constant->bits) + k);
    const Text text = expressions.scalar(index);
    if (k == 0) return text;
    return infix(text, k < 0 ? "-" : "+", {std::to_string(k < 0 ? -k : k)}, Precedence::sum);
}

}  // namespace tessera::emit

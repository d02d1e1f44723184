#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsl/base/target.hpp"
#include "dsl/emit/helpers.hpp"
#include "dsl/emit/names.hpp"
#include "dsl/emit/text.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::emit {

/// One element of a value: lane `lane` of a packed word, lane 0 of a scalar.
struct Piece {
    ir::Ref node;
    int lane;
};

/// Prints expressions. Texts are side-effect free; helpers that they call, and the indices that they read, are noted.
///
///   scalar   a rank-0 value: see scalar_type()
///   element  one lane of any value, as a scalar
///   word     a packed value as one `unsigned`, or a scalar as what a register array holds
class Expressions {
public:
    Expressions(const ir::Program& program, const Names& names, HelperSet& helpers)
        : program_(program), names_(names), helpers_(helpers) {}

    Text scalar(ir::Ref node) { return element(node, 0); }
    Text element(ir::Ref node, int lane);
    Text word(ir::Ref node);

    /// The word made of these elements of `type`, lowest first; at most 32 bits.
    Text pack(Element type, std::span<const Piece> pieces);

    bool uses_thread() const { return uses_thread_; }
    bool uses_block() const { return uses_block_; }

private:
    /// Where an element's bits lie: in a word, from bit `bit` on; or they are known.
    struct Bits {
        Text word;
        int bit = 0;
        bool constant = false;
        std::uint64_t value = 0;
    };

    // expression.cpp
    Text leaf(const ir::Node& node);
    Text computed(const ir::Node& node, int lane);
    Text from_word(const ir::Node& node, int lane);
    Text lookup(const ir::Node& node);
    std::pair<Text, int> four_codes(const ir::Node& index);
    Text warp_reduce(const ir::WarpReduce& op);

    // arithmetic.cpp: operands and results are scalars of `type`
    Text unary(ir::UnaryOp op, Element type, const Text& value);
    Text binary(ir::BinaryOp op, Element type, const Text& a, const Text& b);
    Text float_binary(ir::BinaryOp op, Element type, const Text& a, const Text& b);
    Text integer_binary(ir::BinaryOp op, Element type, const Text& a, const Text& b);
    Text boolean_binary(ir::BinaryOp op, const Text& a, const Text& b);
    Text compare(ir::BinaryOp op, const Text& a, const Text& b);
    Text in_range(Element type, const Text& value);
    Text binary_node(const ir::Node& node, int lane);

    // packed.cpp
    bool has_word_form(const ir::Node& node) const;
    Text packed(const ir::Node& node);
    Text packed_unary(ir::UnaryOp op, Element type, int lanes, const Text& word);
    Text packed_binary(ir::BinaryOp op, Element type, const Text& a, const Text& b);
    Bits bits_of_piece(Piece piece);
    std::optional<Text> pack_comparisons(Element type, std::span<const Piece> pieces);
    std::optional<Text> pack_operations(Element type, std::span<const Piece> pieces);
    std::optional<Text> pack_casts(Element type, std::span<const Piece> pieces);

    // bytes.cpp
    Text select_nibbles(std::span<const Bits> nibbles);
    Text select_bytes(std::span<const Bits> bytes);

    // cast.cpp
    Text cast(Element to, Piece from, bool bounded = false);
    Text bitcast(Element to, Piece from);
    Text as_f32(Piece piece);
    Text f32_to_round(Piece piece);
    std::optional<Bits> expanded(Element to, Piece from);
    std::string to_e2m1(int codes, Element from, bool bounded);
    Text narrow(Element to, std::span<const Text> f32s, bool bounded = false);
    Text narrow_halves(Element half, std::span<const Text> words, bool bounded);
    Text narrow_f16(Element to, std::span<const Text> words);
    Text widen(Element from, const Text& word, int lane);
    Text float_to_integer(Element to, Element from, const Text& value);
    Text number(Element to, Element from, const Text& value);

    const ir::Program& program_;
    const Names& names_;
    HelperSet& helpers_;
    bool uses_thread_ = false, uses_block_ = false;
};

/// Text of index + k, with constants summed up.
Text index_plus(Expressions& expressions, ir::Ref index, std::int64_t k);

}  // namespace tessera::emit

#pragma once

#include <string>
#include <vector>

// A piece of C++ source that knows how tightly it binds, so that parentheses appear only where they are needed.

namespace tessera::emit {

enum class Precedence {
    conditional,
    logical_or,
    logical_and,
    bit_or,
    bit_xor,
    bit_and,
    equality,
    relation,
    shift,
    sum,
    product,
    unary,
    primary,
};

struct Text {
    std::string text;
    Precedence precedence = Precedence::primary;

    /// A shorter spelling for a place whose other operand already has this value's type: a literal without its suffix,
    /// a widening cast that C++ makes by itself. Empty: there is none.
    std::string relaxed = {};
    Precedence relaxed_precedence = Precedence::primary;
    bool literal = false;
    /// Computed in a narrower type than its surroundings: a sum that must not merge with another.
    bool narrower = false;

    bool can_relax() const { return !relaxed.empty(); }
    Text relax() const { return can_relax() ? Text{relaxed, relaxed_precedence, {}, {}, false, !literal} : *this; }
};

/// The text, in parentheses if it binds less tightly than `least`.
std::string within(const Text& text, Precedence least);

/// `a op b`. `grouping_free`: a right operand of the same precedence needs no parentheses.
Text infix(const Text& a, const char* op, const Text& b, Precedence precedence, bool grouping_free = false);

/// `op value`; no `--`.
Text prefix(const char* op, const Text& value);

/// `(type)value`
Text cast_text(const char* type, const Text& value);

/// `condition ? a : b`
Text conditional(const Text& condition, const Text& a, const Text& b);

/// `name(arguments…)`
template <class... Texts>
Text call(const std::string& name, const Texts&... arguments) {
    std::string out = name + "(";
    const char* separator = "";
    ((out += separator, out += arguments.text, separator = ", "), ...);
    return {out + ")"};
}

inline Text call(const std::string& name, const std::vector<Text>& arguments) {
    std::string out = name + "(";
    for (std::size_t i = 0; i < arguments.size(); ++i) out += (i == 0 ? "" : ", ") + arguments[i].text;
    return {out + ")"};
}

}  // namespace tessera::emit

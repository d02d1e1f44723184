#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "dsl/ir/program.hpp"

// The half of print.cpp that knows names, constants and precedence.

namespace tessera::ir::detail {

/// What things are called in a printed program; without one, by their index.
class Names {
public:
    Names() = default;
    explicit Names(const Program& program);

    std::string memory(Space space, int index) const;
    std::string map(int index) const;
    std::string scalar(int index) const;
    std::string variable(int index) const;
    std::string role(int index) const;
    std::string array(int index) const;
    std::string local(int index) const;
    std::string loop(int id) const;
    /// "%x" for a node that a Bind of the program names, else null.
    const std::string* bound(Ref node) const;

private:
    void bind(Ref node);

    const Program* program_ = nullptr;
    std::unordered_map<int, std::string> loops_;
    std::unordered_map<Ref, std::string> bound_;
    std::unordered_map<std::string, int> uses_;
};

/// What follows an access: " streaming", or nothing.
const char* hint(Cache cache);

/// A constant as a reader expects it: 448.0, -3, true, f32:0x7fffffff.
std::string constant_text(Element type, std::uint64_t bits);

/// "[4, 1024]"
std::string extents_text(const Shape& shape);

class ExpressionPrinter {
public:
    ExpressionPrinter(const Names& names, std::size_t limit) : names_(names), limit_(limit) {}

    std::string operator()(Ref node);
    /// What `node` computes, even if it has a name.
    std::string definition(Ref node);
    std::string view(const View& view);

private:
    struct Writer;
    const Names& names_;
    std::size_t limit_;
};

}  // namespace tessera::ir::detail

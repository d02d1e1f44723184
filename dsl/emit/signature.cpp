#include "dsl/emit/signature.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/emit/c_types.hpp"
#include "dsl/emit/writer.hpp"

namespace tessera::emit {

namespace {

struct Parameter {
    std::string declaration, note;
};

/// Integers as a reader writes them.
std::string plain(Expressions& expressions, ir::Ref node) {
    const Text text = expressions.scalar(node);
    return text.literal ? text.relax().text : text.text;
}

template <class List, class Item>
std::string bracketed(const List& list, const Item& item) {
    std::string out = "[";
    for (const auto& entry : list) out += (out.size() > 1 ? ", " : "") + item(entry);
    return out + "]";
}

/// A product: its constant factors multiplied out, the texts of the others sorted.
struct Product {
    std::uint64_t constant = 1;
    std::vector<std::string> symbols;

    friend bool operator==(const Product&, const Product&) = default;
};

void multiply(Expressions& expressions, Product& product, ir::Ref node) {
    const auto* factors = node->as<ir::Binary>();
    if (factors != nullptr && factors->op == ir::BinaryOp::mul) {
        multiply(expressions, product, factors->a);
        multiply(expressions, product, factors->b);
    } else if (const auto* constant = node->as<ir::Constant>()) {
        product.constant *= constant->bits;
    } else {
        const std::string text = plain(expressions, node);
        product.symbols.insert(std::upper_bound(product.symbols.begin(), product.symbols.end(), text), text);
    }
}

/// Whether the elements lie row after row without gaps: each stride is the product of the extents behind it.
bool is_contiguous(const std::vector<ir::Axis>& axes, Expressions& expressions) {
    Product expected;
    for (std::size_t i = axes.size(); i-- > 0;) {
        Product stride;
        multiply(expressions, stride, axes[i].stride);
        if (axes[i].inner != 1 || !(stride == expected)) return false;
        multiply(expressions, expected, axes[i].extent);
    }
    return true;
}

std::string note_of(const ir::TensorParam& tensor, Expressions& expressions) {
    std::string note =
        fmt::format("{} {}", name_of(tensor.type),
                    bracketed(tensor.axes, [&](const ir::Axis& axis) { return plain(expressions, axis.extent); }));
    if (!is_contiguous(tensor.axes, expressions))
        note += " strides " + bracketed(tensor.axes, [&](const ir::Axis& axis) {
                    const std::string stride = plain(expressions, axis.stride);
                    return axis.inner == 1 ? stride : fmt::format("{}:{} by {}", axis.inner, axis.inner_stride, stride);
                });
    if (tensor.align > bits_of(tensor.type) / 8) note += fmt::format(", {}-byte aligned", tensor.align);
    return note;
}

std::vector<Parameter> parameters(const ir::Program& program, const Names& names, Expressions& expressions) {
    std::vector<Parameter> out;
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
        const ir::TensorParam& tensor = program.tensors[i];
        const char* before = tensor.role == ir::Role::input ? "const " : "";
        const char* after = tensor.role == ir::Role::inout ? "" : " __restrict__";
        out.push_back({fmt::format("{}{}*{} {}", before, storage_type(tensor.type), after, names.tensors[i]),
                       note_of(tensor, expressions)});
    }
    for (std::size_t i = 0; i < program.scalars.size(); ++i) {
        const ir::ScalarParam& scalar = program.scalars[i];
        std::string note = name_of(scalar.type);
        if (scalar.multiple_of > 1) note += fmt::format(", a multiple of {}", scalar.multiple_of);
        out.push_back({fmt::format("{} {}", storage_type(scalar.type), names.scalars[i]), note});
    }
    for (std::size_t i = 0; i < program.maps.size(); ++i) {
        const ir::TensorMap& map = program.maps[i];
        std::string note =
            fmt::format("boxes {} of {}", bracketed(map.box, [](auto side) { return std::to_string(side); }),
                        names.tensors[static_cast<std::size_t>(map.tensor)]);
        if (map.swizzle > 0) note += fmt::format(", swizzled over {} bytes", map.swizzle);
        out.push_back({fmt::format("const __grid_constant__ TensorMap {}", names.maps[i]), note});
    }
    if (!program.rules.empty())
        out.push_back({fmt::format("unsigned long long* {}", Names::record), "what is reported: place, value"});
    return out;
}

}  // namespace

std::string signature(const ir::Program& program, const Names& names, Expressions& expressions) {
    const bool budgets = !program.roles.empty() && program.roles.front().registers > 0;
    const int blocks = std::max(program.least_blocks, budgets ? 1 : 0);  // a budget is a share of what is known
    std::string out = fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}) {}(", program.threads,
                                  blocks > 0 ? fmt::format(", {}", blocks) : "", program.name);
    const std::vector<Parameter> list = parameters(program, names, expressions);
    if (list.empty()) return out + ")";
    std::size_t widest = 0;
    for (const Parameter& p : list) widest = std::max(widest, p.declaration.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
        const bool last = i + 1 == list.size();
        out += fmt::format("\n    {:<{}}  // {}", list[i].declaration + (last ? "" : ","), widest + 1,
                           comment_text(list[i].note));
    }
    return out + "\n)";
}

std::string headline(const ir::Program& program, const Target& target, Expressions& expressions) {
    const std::string grid = bracketed(program.grid, [&](ir::Ref extent) { return plain(expressions, extent); });
    return comment_text(
        fmt::format("// {} for {}: blocks of {} threads, grid {}", program.name, target.arch(), program.threads, grid));
}

}  // namespace tessera::emit

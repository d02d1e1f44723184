#include "dsl/ir/print_expression.hpp"

#include <bit>
#include <charconv>
#include <cmath>

#include "dsl/base/convert.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::ir::detail {

namespace {

template <class T>
std::string name_in(const std::vector<T>* table, int index, const char* kind) {
    if (table == nullptr || index < 0 || static_cast<std::size_t>(index) >= table->size())
        return kind + std::to_string(index);
    if constexpr (std::is_same_v<T, std::string>)
        return (*table)[index];
    else
        return (*table)[index].name;
}

std::string float_text(double value, bool single) {
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char buffer[64];
    const auto end = single ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr
                            : std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    std::string text(buffer, end);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

std::string hex_text(Element type, std::uint64_t bits) {
    char buffer[32];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, bits, 16).ptr;
    return std::string(name_of(type)) + ":0x" + std::string(buffer, end);
}

/// Precedence as in C++; larger binds tighter.
enum Precedence { any = 0, bit_or = 1, bit_xor, bit_and, equality, relation, shift, sum, product, prefix, primary };

struct Infix {
    const char* symbol;  // null: written as a call
    Precedence precedence;
};

Infix infix_of(BinaryOp op) {
    switch (op) {
        case BinaryOp::add: return {" + ", sum};
        case BinaryOp::sub: return {" - ", sum};
        case BinaryOp::mul: return {" * ", product};
        case BinaryOp::div: return {" / ", product};
        case BinaryOp::mod: return {" % ", product};
        case BinaryOp::bit_and: return {" & ", bit_and};
        case BinaryOp::bit_or: return {" | ", bit_or};
        case BinaryOp::bit_xor: return {" ^ ", bit_xor};
        case BinaryOp::shl: return {" << ", shift};
        case BinaryOp::shr: return {" >> ", shift};
        case BinaryOp::eq: return {" == ", equality};
        case BinaryOp::ne: return {" != ", equality};
        case BinaryOp::lt: return {" < ", relation};
        case BinaryOp::le: return {" <= ", relation};
        case BinaryOp::gt: return {" > ", relation};
        case BinaryOp::ge: return {" >= ", relation};
        case BinaryOp::div_bounded:
        case BinaryOp::max_magnitude:
        case BinaryOp::min_nan:
        case BinaryOp::max_nan:
        case BinaryOp::min:
        case BinaryOp::max: break;
    }
    return {nullptr, primary};
}

/// Of an operation that has no symbol.
const char* call_name(BinaryOp op) {
    switch (op) {
        case BinaryOp::div_bounded: return "divide_bounded";
        case BinaryOp::max_magnitude: return "max_magnitude";
        case BinaryOp::min_nan: return "min_nan";
        case BinaryOp::max_nan: return "max_nan";
        case BinaryOp::min: return "min";
        default: return "max";
    }
}

const char* reduce_name(ReduceOp op) {
    switch (op) {
        case ReduceOp::sum: return "sum";
        case ReduceOp::max: return "max";
        case ReduceOp::min: return "min";
        case ReduceOp::bit_or: return "or";
        case ReduceOp::dot: return "dot";
    }
    return "reduce";
}

}  // namespace

// ---- names ---------------------------------------------------------------------------------------------------------

Names::Names(const Program& program) : program_(&program) {
    for_each_statement(program.body, [&](const Statement& statement) {
        if (const auto* loop = statement.as<For>()) loops_.emplace(loop->loop, loop->name);
        if (const auto* b = statement.as<Bind>(); b && b->value) bind(b->value);
    });
}

void Names::bind(Ref node) {
    if (bound_.count(node)) return;
    std::string stem = "v";
    if (const auto* load = node->as<Load>()) stem = memory(load->view.space, load->view.memory);
    if (const auto* read = node->as<VariableRead>()) stem = variable(read->variable);
    if (const auto* reduce = node->as<Reduce>()) stem = reduce_name(reduce->op);
    if (node->as<Least>()) stem = "least";
    const int use = ++uses_[stem];
    const std::string number = stem == "v" ? std::to_string(use) : use == 1 ? "" : "." + std::to_string(use);
    bound_.emplace(node, "%" + stem + number);
}

std::string Names::memory(Space space, int index) const {
    if (space == Space::global) return name_in(program_ ? &program_->tensors : nullptr, index, "tensor");
    return name_in(program_ ? &program_->shared : nullptr, index, "shared");
}
std::string Names::map(int index) const { return name_in(program_ ? &program_->maps : nullptr, index, "map"); }
std::string Names::scalar(int index) const { return name_in(program_ ? &program_->scalars : nullptr, index, "scalar"); }
std::string Names::role(int index) const { return name_in(program_ ? &program_->roles : nullptr, index, "role"); }
std::string Names::variable(int index) const {
    return name_in(program_ ? &program_->variables : nullptr, index, "variable");
}
std::string Names::array(int index) const { return name_in(program_ ? &program_->arrays : nullptr, index, "array"); }
std::string Names::local(int index) const { return name_in(program_ ? &program_->locals : nullptr, index, "local"); }

std::string Names::loop(int id) const {
    const auto found = loops_.find(id);
    return found == loops_.end() ? "loop" + std::to_string(id) : found->second;
}

const std::string* Names::bound(Ref node) const {
    const auto found = bound_.find(node);
    return found == bound_.end() ? nullptr : &found->second;
}

// ---- constants -----------------------------------------------------------------------------------------------------

const char* hint(Cache cache) { return cache == Cache::streaming ? " streaming" : cache == Cache::kept ? " kept" : ""; }

std::string constant_text(Element type, std::uint64_t bits) {
    if (type == boolean) return bits == 0 ? "false" : "true";
    if (is_unsigned_integer(type)) return std::to_string(bits);
    if (is_signed_integer(type)) {
        const int unused = 64 - bits_of(type);
        return std::to_string(static_cast<std::int64_t>(bits << unused) >> unused);
    }
    if (type == tf32 || type == e5m6 || type == e2m1) return hex_text(type, bits);
    const double value = type == f64 ? std::bit_cast<double>(bits) : decode_float(type, bits);
    return std::isnan(value) ? hex_text(type, bits) : float_text(value, type != f64);
}

std::string extents_text(const Shape& shape) {
    std::string text = "[";
    for (int i = 0; i < shape.rank(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

// ---- expressions ---------------------------------------------------------------------------------------------------

struct ExpressionPrinter::Writer {
    const Names& names;
    std::size_t limit;
    std::string out;

    bool full() const { return out.size() > limit; }

    void expression(Ref node, int least = any) {
        if (full()) return;
        if (node == nullptr) {
            out += "null";
        } else if (const std::string* name = names.bound(node)) {
            out += *name;
        } else {
            define(*node, least);
        }
    }

    void define(const Node& node, int least) {
        std::visit([&](const auto& op) { write(node, op, least); }, node.op);
    }

    void number(std::int64_t n) { out += std::to_string(n); }
    void list(const std::vector<Ref>& items) {
        for (std::size_t i = 0; i < items.size() && !full(); ++i) out += i ? ", " : "", expression(items[i]);
    }
    void call(std::string_view name, const std::vector<Ref>& arguments, const std::string& rest = {}) {
        out += name, out += "(", list(arguments), out += rest, out += ")";
    }

    void write(const Node& n, const Constant& op, int least) {
        const std::string text = constant_text(n.type, op.bits);
        const bool enclose = text[0] == '-' && least > prefix;
        out += enclose ? "(" + text + ")" : text;
    }
    void write(const Node&, const Parameter& op, int) { out += names.scalar(op.index); }
    void write(const Node&, const LoopIndex& op, int) { out += names.loop(op.loop); }

    void write(const Node&, const Unary& op, int least) {
        if (op.op == UnaryOp::abs) return call("abs", {op.value});
        if (op.op == UnaryOp::rsqrt) return call("rsqrt", {op.value});
        if (op.op == UnaryOp::exp) return call("exp", {op.value});
        if (op.op == UnaryOp::popcount) return call("popcount", {op.value});
        if (op.op == UnaryOp::sqrt) return call("sqrt", {op.value});
        if (op.op == UnaryOp::log1p) return call("log1p", {op.value});
        if (least > prefix) out += "(";
        out += op.op == UnaryOp::neg ? "-" : "~";
        expression(op.value, primary);
        if (least > prefix) out += ")";
    }

    void write(const Node&, const Binary& op, int least) {
        const auto [symbol, precedence] = infix_of(op.op);
        if (symbol == nullptr) return call(call_name(op.op), {op.a, op.b});
        const bool chains = precedence != equality && precedence != relation;  // a < b < c is no English
        if (least > precedence) out += "(";
        expression(op.a, precedence + (chains ? 0 : 1));
        out += symbol;
        expression(op.b, precedence + 1);
        if (least > precedence) out += ")";
    }

    void write(const Node&, const Fma& op, int) { call("fma", {op.a, op.b, op.c}); }
    void write(const Node&, const Lookup& op, int) {
        std::vector<Ref> all = {op.index};
        all.insert(all.end(), op.table.begin(), op.table.end());
        if (op.signs) all.push_back(op.signs);
        call("lookup", all);
    }
    void write(const Node&, const Select& op, int) { call("select", {op.condition, op.a, op.b}); }
    void write(const Node& n, const Cast& op, int) {
        call(op.bounded ? "bounded_" + std::string(name_of(n.type)) : name_of(n.type), {op.value});
    }
    void write(const Node& n, const Bitcast& op, int) {
        std::string name = "bitcast<" + std::string(name_of(n.type));
        if (n.shape.rank() == 1) name += "x" + std::to_string(n.shape[0]);
        call(name + ">", {op.value});
    }

    void write(const Node&, const BlockIndex& op, int) { out += "block", number(op.axis); }
    void write(const Node& n, const Coordinate& op, int) {
        out += "coordinate(axis ", number(op.axis), out += " of " + extents_text(n.shape) + ")";
    }
    void write(const Node&, const Load& op, int least) {
        if (least > any) out += "(";
        out += "load ", view(op.view), out += " fill ", expression(op.fill);
        if (op.per_thread.rank() != 0) out += " per thread " + extents_text(op.per_thread);
        if (op.lanes != 0) out += " over lanes ", number(op.lanes);
        out += hint(op.cache);
        if (least > any) out += ")";
    }
    void write(const Node&, const Reduce& op, int) {
        call("reduce_" + std::string(reduce_name(op.op)), {op.value}, ", axis " + std::to_string(op.axis));
    }
    void write(const Node&, const Least& op, int) {
        const std::string ranks = ", ranks " + std::to_string(op.first) + " to " + std::to_string(op.count);
        call("least", {op.value}, ranks + ", axis " + std::to_string(op.axis));
    }
    void write(const Node& n, const Broadcast& op, int) { call("broadcast", {op.value}, ", " + extents_text(n.shape)); }
    void write(const Node& n, const Reshape& op, int) { call("reshape", {op.value}, ", " + extents_text(n.shape)); }
    void write(const Node&, const Permute& op, int) {
        std::string order = ", [";
        for (std::size_t i = 0; i < op.order.size(); ++i) order += (i ? ", " : "") + std::to_string(op.order[i]);
        call("permute", {op.value}, order + "]");
    }
    void write(const Node&, const Convert& op, int) { call("convert", {op.value}); }
    void write(const Node&, const VariableRead& op, int) { out += names.variable(op.variable) + ".get()"; }

    void write(const Node&, const ThreadIndex&, int) { out += "thread"; }
    void write(const Node&, const LinearBlock&, int) { out += "block"; }
    void write(const Node&, const Local& op, int) { out += names.local(op.local); }
    void write(const Node&, const Register& op, int) {
        out += names.array(op.array) + "[", expression(op.index), out += "]";
    }
    void write(const Node&, const Lane& op, int) {
        expression(op.value, primary), out += ".lane(", number(op.lane), out += ")";
    }
    void write(const Node&, const Pack& op, int) { call("pack", op.elements); }
    void write(const Node&, const Shuffle& op, int) { call("shuffle", {op.value}, ", xor " + std::to_string(op.mask)); }
    void write(const Node&, const Scan& op, int) {
        call(op.exclusive ? "exclusive_sum" : "inclusive_sum", {op.value}, ", axis " + std::to_string(op.axis));
    }
    void write(const Node&, const Match& op, int) { call("match", {op.value}, ", axis " + std::to_string(op.axis)); }
    void write(const Node&, const Mma& op, int) {
        call("mma", {op.a, op.b, op.c},
             (op.warps > 0 ? ", warps " + std::to_string(op.warps) : std::string()) +
                 (op.shared_a ? ", a in place" : "") + (op.shared_b ? ", b in place" : ""));
    }
    void write(const Node&, const WarpReduce& op, int) { call("warp_" + std::string(reduce_name(op.op)), {op.value}); }

    void view(const View& v) {
        out += names.memory(v.space, v.memory) + ".block[";
        for (std::size_t i = 0; i < v.axes.size(); ++i)
            out += (i ? ", " : "") + (v.axes[i].picked ? "pick" : std::to_string(v.axes[i].extent));
        out += "] at (";
        for (std::size_t i = 0; i < v.axes.size(); ++i) out += i ? ", " : "", expression(v.axes[i].offset);
        out += ")";
    }

    /// Cuts between characters, not inside one of several bytes.
    std::string take() {
        if (!full()) return std::move(out);
        std::size_t cut = limit;
        while (cut > 0 && (static_cast<unsigned char>(out[cut]) & 0xC0) == 0x80) --cut;
        out.resize(cut);
        return out + "…";
    }
};

std::string ExpressionPrinter::operator()(Ref node) {
    Writer w{names_, limit_, {}};
    w.expression(node);
    return w.take();
}

std::string ExpressionPrinter::definition(Ref node) {
    Writer w{names_, limit_, {}};
    if (node == nullptr) return "null";
    w.define(*node, any);
    return w.take();
}

std::string ExpressionPrinter::view(const View& view) {
    Writer w{names_, limit_, {}};
    w.view(view);
    return w.take();
}

}  // namespace tessera::ir::detail

#include "dsl/host/expressions.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::host {

namespace {

[[noreturn]] void refuse(const ir::Node& n, const char* why) {
    throw InternalError(fmt::format("the host executor cannot run node {} of type {} ({}:{}): {}", n.id,
                                    name_of(n.type), n.place.file, n.place.line, why));
}

}  // namespace

void Lanes::push_back(int v) {
    require_internal(count < most, "a packed word holds at most 8 elements");
    value[static_cast<std::size_t>(count++)] = v;
}

Expressions::Expressions(const ir::Program& program, Numbering& numbering, const Words& words, Code& code)
    : program_(program),
      numbering_(numbering),
      words_(words),
      code_(code),
      known_(static_cast<std::size_t>(program.arena->size())),
      locals_(program.locals.size()),
      counters_(static_cast<std::size_t>(program.loops), -1) {}

const Lanes& Expressions::operator()(ir::Ref ref) {
    require_internal(ref != nullptr, "the host executor met a missing expression");
    const auto id = static_cast<std::size_t>(ref->id);
    if (id >= known_.size()) known_.resize(id + id / 2 + 16);
    if (known_[id].stamp != stamp_ || known_[id].node != ref) {
        const Lanes lanes = std::visit([&](const auto& op) { return of(*ref, op); }, ref->op);
        if (lanes.count != ref->lanes() && lanes.count != 1) refuse(*ref, "its word has another number of elements");
        known_[id] = {stamp_, ref, lanes};
    }
    return known_[id].lanes;
}

int Expressions::scalar(ir::Ref ref) {
    const Lanes& lanes = (*this)(ref);
    if (lanes.count != 1) refuse(*ref, "a scalar is needed here");
    return lanes[0];
}

int Expressions::integer(ir::Ref ref) { return cast(scalar(ref), ref->type, Element::i64, *ref); }

std::size_t Expressions::known_index(ir::Ref ref) {
    const auto& bits = numbering_.at(scalar(ref)).constant;
    if (!bits) refuse(*ref, "a register index must be a constant or the counter of an unrolled loop");
    return static_cast<std::size_t>(*bits);
}

Lanes Expressions::read_words(int array, std::size_t index, const Place& place) {
    const ir::RegisterArray& a = program_.arrays[static_cast<std::size_t>(array)];
    const auto pack = static_cast<std::size_t>(a.pack);
    Lanes lanes;
    int checked = -1;
    for (std::size_t i = 0; i < pack; ++i) {
        const Words::Element& element = words_.get(array, index * pack + i);
        lanes.push_back(element.value);
        const auto& written = numbering_.at(element.defined).constant;
        if (!code_.checked || written == 1u || element.defined == checked) continue;
        numbering_.emit({Kind::defined,
                         true,
                         nullptr,
                         static_cast<std::uint32_t>(code_.undefined_reads.size()),
                         {},
                         {element.defined}});
        code_.undefined_reads.push_back({place, a.name, static_cast<int>(index)});
        checked = element.defined;
    }
    return lanes;
}

Lanes Expressions::of(const ir::Node& n, const ir::Constant& op) {
    Lanes lanes;
    for (int i = 0; i < n.lanes(); ++i) lanes.push_back(numbering_.constant(op.bits, is_wide(n.type)));
    return lanes;
}

Lanes Expressions::of(const ir::Node& n, const ir::Parameter& op) {
    return {{numbering_.scalar(op.index, is_wide(n.type))}, 1};
}

Lanes Expressions::of(const ir::Node& n, const ir::LoopIndex& op) {
    const int counter = counters_.at(static_cast<std::size_t>(op.loop));
    if (counter < 0) refuse(n, "the counter of a loop is used outside of it");
    return {{counter}, 1};
}

Lanes Expressions::of(const ir::Node& n, const ir::Unary& op) {
    const LaneFunction fn = unary_function(op.op, op.value->type);
    if (fn == nullptr) refuse(n, "its operation does not fit its operand");
    const Lanes value = (*this)(op.value);
    Lanes lanes;
    for (int i = 0; i < value.count; ++i) lanes.push_back(numbering_.operate(fn, {value[i]}, is_wide(n.type)));
    return lanes;
}

Lanes Expressions::of(const ir::Node& n, const ir::Binary& op) {
    const LaneFunction fn = binary_function(op.op, op.a->type);
    if (fn == nullptr) refuse(n, "its operation does not fit its operands");
    const Lanes a = (*this)(op.a), b = (*this)(op.b);
    Lanes lanes;
    for (int i = 0; i < std::max(a.count, b.count); ++i) {
        const int second = cast(b[i], op.b->type, op.a->type, n);  // a shift's count may have a type of its own
        if (op.op == ir::BinaryOp::div_bounded && code_.checked)
            check_bounds(numbering_.operate(unbounded_function(), {a[i], second}, false), a[i], second,
                         {n.place, true});
        lanes.push_back(numbering_.operate(fn, {a[i], second}, is_wide(n.type)));
    }
    return lanes;
}

/// An error where `wrong` is not 0, with the operands that are to blame.
void Expressions::check_bounds(int wrong, int a, int b, const Bound& bound) {
    if (numbering_.at(wrong).constant == 0u) return;
    const auto info = static_cast<std::uint32_t>(code_.bounds.size());
    numbering_.emit({Kind::bounded, numbering_.at(wrong).uniform, nullptr, info, {}, {wrong, a, b}});
    code_.bounds.push_back(bound);
}

Lanes Expressions::of(const ir::Node& n, const ir::Fma& op) {
    if (n.type != Element::f32) refuse(n, "its operation does not fit its operands");
    const Lanes a = (*this)(op.a), b = (*this)(op.b), c = (*this)(op.c);
    Lanes lanes;
    for (int i = 0; i < std::max({a.count, b.count, c.count}); ++i)
        lanes.push_back(numbering_.operate(fma_function(), {a[i], b[i], c[i]}, false));
    return lanes;
}

Lanes Expressions::of(const ir::Node& n, const ir::Lookup& op) {
    const LaneFunction fn = lookup_function(n.type, true), magnitude = lookup_function(n.type, false);
    if (fn == nullptr) refuse(n, "its operation does not fit its operands");
    const int signs = op.signs ? scalar(op.signs) : -1;
    const auto table_word = [&](std::size_t i) { return joined((*this)(op.table[i]), n.type, false); };
    const int low = table_word(0), high = op.table.size() > 1 ? table_word(1) : low;
    const Lanes index = (*this)(op.index);
    Lanes lanes;
    for (int i = 0; i < index.count; ++i) {
        int entry = numbering_.operate(fn, {index[i], low, high}, false);
        if (op.signs) {
            const int positive = numbering_.operate(magnitude, {index[i], low, high}, false);
            entry = numbering_.operate(select_function(false), {signs, entry, positive}, false);
        }
        lanes.push_back(entry);
    }
    return lanes;
}

Lanes Expressions::of(const ir::Node& n, const ir::Select& op) {
    const Lanes condition = (*this)(op.condition), a = (*this)(op.a), b = (*this)(op.b);
    Lanes lanes;
    for (int i = 0; i < std::max({condition.count, a.count, b.count}); ++i) {
        const auto& known = numbering_.at(condition[i]).constant;
        lanes.push_back(
            known ? (*known != 0 ? a[i] : b[i])
                  : numbering_.operate(select_function(is_wide(n.type)), {condition[i], a[i], b[i]}, is_wide(n.type)));
    }
    return lanes;
}

int Expressions::cast(int value, Element from, Element to, const ir::Node& n) {
    if (from == to) return value;
    const LaneFunction fn = cast_function(from, to);
    if (fn == nullptr) refuse(n, "there is no host conversion between these element types");
    return numbering_.operate(fn, {value}, is_wide(to));
}

Lanes Expressions::of(const ir::Node& n, const ir::Cast& op) {
    const Lanes value = (*this)(op.value);
    Lanes lanes;
    for (int i = 0; i < value.count; ++i) {
        if (op.bounded && code_.checked) {
            const int real = cast(value[i], op.value->type, Element::f32, n);
            check_bounds(numbering_.operate(past_e2m1_function(op.value->type), {real}, false), real, real,
                         {n.place, false});
        }
        lanes.push_back(cast(value[i], op.value->type, n.type, n));
    }
    return lanes;
}

/// The elements of a word side by side in one register.
int Expressions::joined(const Lanes& lanes, Element type, bool wide) {
    int word = wide && is_wide(type) ? lanes[0] : numbering_.constant(0, wide);
    if (is_wide(type)) return word;
    for (int i = 0; i < lanes.count; ++i) {
        const int amount = numbering_.constant(static_cast<std::uint64_t>(i * bits_of(type)), false);
        word = numbering_.operate(insert_function(wide), {word, lanes[i], amount}, wide, Numbering::Last::uniform);
    }
    return word;
}

Lanes Expressions::of(const ir::Node& n, const ir::Bitcast& op) {
    const Lanes value = (*this)(op.value);
    const Element from = op.value->type;
    if (bits_of(from) * value.count != bits_of(n.type) * n.lanes()) refuse(n, "the widths of a bitcast differ");
    if (value.count == n.lanes()) return value;
    const bool wide = bits_of(from) * value.count == 64;
    const int word = joined(value, from, wide);
    if (n.lanes() == 1) return {{word}, 1};
    Lanes lanes;
    for (int i = 0; i < n.lanes(); ++i) {
        const int amount = numbering_.constant(static_cast<std::uint64_t>(i * bits_of(n.type)), false);
        lanes.push_back(numbering_.operate(extract_function(wide, bits_of(n.type)), {word, amount}, false,
                                           Numbering::Last::uniform));
    }
    return lanes;
}

Lanes Expressions::of(const ir::Node& n, const ir::ThreadIndex&) {
    return {{cast(numbering_.thread_index(), Element::i32, n.type, n)}, 1};
}

Lanes Expressions::of(const ir::Node& n, const ir::LinearBlock&) {
    return {{cast(numbering_.block_index(), Element::i64, n.type, n)}, 1};
}

Lanes Expressions::of(const ir::Node& n, const ir::Local& op) {
    const Lanes& lanes = locals_.at(static_cast<std::size_t>(op.local));
    if (lanes.count == 0) refuse(n, "a local is used before its Let");
    return lanes;
}

Lanes Expressions::of(const ir::Node& n, const ir::Register& op) {
    return read_words(op.array, known_index(op.index), n.place);
}

Lanes Expressions::of(const ir::Node&, const ir::Lane& op) { return {{(*this)(op.value)[op.lane]}, 1}; }

Lanes Expressions::of(const ir::Node&, const ir::Pack& op) {
    Lanes lanes;
    for (ir::Ref element : op.elements) lanes.push_back(scalar(element));
    return lanes;
}

Lanes Expressions::of(const ir::Node& n, const ir::Shuffle& op) {
    const Lanes value = (*this)(op.value);
    const int mask = numbering_.constant(static_cast<std::uint64_t>(op.mask), false);
    const bool wide = is_wide(n.type);
    Lanes lanes;
    for (int i = 0; i < value.count; ++i) {
        const bool same_everywhere = numbering_.at(value[i]).uniform;
        lanes.push_back(same_everywhere ? value[i]
                                        : numbering_.operate(shuffle_function(wide), {value[i], mask}, wide,
                                                             Numbering::Last::uniform));
    }
    return lanes;
}

Lanes Expressions::of(const ir::Node& n, const ir::WarpReduce& op) {
    const LaneFunction fn = warp_reduce_function(op.op, n.type);
    if (fn == nullptr) refuse(n, "its operation does not fit its operand");
    return {{numbering_.operate(fn, {numbering_.per_thread(scalar(op.value))}, false)}, 1};
}

Lanes Expressions::of(const ir::Node&, const ir::Match& op) {
    const LaneFunction fn = match_function(is_wide(op.value->type));
    return {{numbering_.operate(fn, {numbering_.per_thread(scalar(op.value))}, false)}, 1};
}

template <class Recorded>
Lanes Expressions::of(const ir::Node& n, const Recorded&) {
    refuse(n, "it belongs to a program that has not been lowered");
}

}  // namespace tessera::host

#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dsl/ir/program.hpp"

// Lowered programs written by hand, node by node.

namespace tessera::test {

using ir::BinaryOp;
using ir::Ref;
using ir::UnaryOp;

class Builder {
public:
    explicit Builder(const std::string& name) {
        program.name = name;
        program.stage = ir::Stage::lowered;
        bodies_.push_back(&program.body);
    }

    ir::Program program;

    // ---- expressions
    Ref make(Element type, Shape shape, ir::Op op) { return program.arena->make(type, shape, {}, std::move(op)); }
    Ref constant(Element type, std::uint64_t bits) { return make(type, {}, ir::Constant{bits}); }
    Ref i(std::int32_t value) { return constant(i32, static_cast<std::uint32_t>(value)); }
    Ref l(std::int64_t value) { return constant(i64, static_cast<std::uint64_t>(value)); }
    Ref f(float value) { return constant(f32, std::bit_cast<std::uint32_t>(value)); }
    Ref thread() { return make(i32, {}, ir::ThreadIndex{}); }
    Ref block() { return make(i64, {}, ir::LinearBlock{}); }
    Ref binary(BinaryOp op, Ref a, Ref b) {
        return make(op >= BinaryOp::eq ? boolean : a->type, a->shape, ir::Binary{op, a, b});
    }
    Ref add(Ref a, Ref b) { return binary(BinaryOp::add, a, b); }
    Ref sub(Ref a, Ref b) { return binary(BinaryOp::sub, a, b); }
    Ref mul(Ref a, Ref b) { return binary(BinaryOp::mul, a, b); }
    Ref less(Ref a, Ref b) { return binary(BinaryOp::lt, a, b); }
    Ref unary(UnaryOp op, Ref a) { return make(a->type, a->shape, ir::Unary{op, a}); }
    Ref cast(Element to, Ref a) { return make(to, a->shape, ir::Cast{a}); }
    Ref bounded_cast(Element to, Ref a) { return make(to, a->shape, ir::Cast{a, true}); }
    Ref bitcast(Element to, Ref a, Shape shape = {}) { return make(to, shape, ir::Bitcast{a}); }
    Ref select(Ref c, Ref a, Ref b) { return make(a->type, a->shape, ir::Select{c, a, b}); }
    Ref lane(Ref word, int lane) { return make(word->type, {}, ir::Lane{word, lane}); }
    Ref shuffle(Ref value, int mask) { return make(value->type, value->shape, ir::Shuffle{value, mask}); }
    Ref pack(std::vector<Ref> elements) {
        const auto lanes = static_cast<std::int64_t>(elements.size());
        const Element type = elements[0]->type;
        return make(type, {lanes}, ir::Pack{std::move(elements)});
    }
    Ref word(int array, Ref index) {
        const ir::RegisterArray& a = program.arrays[static_cast<std::size_t>(array)];
        return make(a.type, a.pack == 1 ? Shape{} : Shape{a.pack}, ir::Register{array, index});
    }

    // ---- tables
    int scalar(const std::string& name, Element type = i64, std::int64_t multiple_of = 1) {
        program.scalars.push_back({name, type, multiple_of, {}});
        return static_cast<int>(program.scalars.size()) - 1;
    }
    Ref parameter(int index) {
        return make(program.scalars[static_cast<std::size_t>(index)].type, {}, ir::Parameter{index});
    }
    /// Row-major.
    int tensor(const std::string& name, Element type, ir::Role role, const std::vector<Ref>& extents, int align = 1) {
        ir::TensorParam tensor{name, type, role, {}, align, {}};
        tensor.axes.resize(extents.size());
        Ref stride = l(1);
        for (std::size_t axis = extents.size(); axis-- > 0;) {
            tensor.axes[axis] = {extents[axis], stride, 1, 0};
            const auto* e = extents[axis]->as<ir::Constant>();
            const auto* s = stride->as<ir::Constant>();
            stride = e && s              ? l(static_cast<std::int64_t>(e->bits * s->bits))
                     : s && s->bits == 1 ? extents[axis]
                                         : mul(extents[axis], stride);
        }
        program.tensors.push_back(tensor);
        return static_cast<int>(program.tensors.size()) - 1;
    }
    int shared(const std::string& name, Element type, Shape shape, std::int64_t byte_offset, ir::Swizzle swizzle = {}) {
        program.shared.push_back({name, type, shape, swizzle, {}, byte_offset});
        return static_cast<int>(program.shared.size()) - 1;
    }

    // ---- statements
    void at(const char* file, std::uint32_t line) { place_.file = file, place_.line = line; }
    void nowhere() { place_ = {}; }
    void put(ir::StatementOp op) { bodies_.back()->push_back({place_, std::move(op)}); }
    int array(const std::string& name, Element type, int pack, int words, const std::string& note = {}) {
        program.arrays.push_back({name, type, pack, words, note});
        const int id = static_cast<int>(program.arrays.size()) - 1;
        put(ir::Declare{id});
        return id;
    }
    Ref let(const std::string& name, Ref value) {
        program.locals.push_back(name);
        const int id = static_cast<int>(program.locals.size()) - 1;
        put(ir::Let{id, value});
        return make(value->type, value->shape, ir::Local{id});
    }
    void set(int array, Ref index, Ref value) { put(ir::Set{array, index, value}); }
    void barrier() { put(ir::Barrier{}); }
    void comment(const std::string& text) { put(ir::Comment{text}); }
    void load(ir::Access access, int array, Ref index, Ref fill = nullptr) {
        put(ir::LoadVector{std::move(access), array, index, fill});
    }
    void store(ir::Access access, std::vector<Ref> words) { put(ir::StoreVector{std::move(access), std::move(words)}); }
    static ir::Access global(int memory, Ref offset, int lanes, Ref predicate = nullptr) {
        return {ir::Space::global, memory, {offset}, 0, offset, predicate, lanes};
    }
    static ir::Access in_shared(int memory, Ref offset, int lanes, Ref predicate = nullptr) {
        return {ir::Space::shared, memory, {offset}, 0, offset, predicate, lanes};
    }

    /// body(counter) inside a loop; the counter is i32 when unrolled, else i64.
    template <class Fn>
    void loop(const std::string& name, Ref begin, Ref end, Ref step, bool unrolled, const Fn& body) {
        const int id = program.loops++;
        put(ir::For{id, name, begin, end, step, unrolled, {}});
        ir::Body inner;
        bodies_.push_back(&inner);
        body(make(unrolled ? i32 : i64, {}, ir::LoopIndex{id}));
        bodies_.pop_back();
        bodies_.back()->back().as<ir::For>()->body = std::move(inner);
    }
    template <class Fn>
    void unrolled(const std::string& name, int count, const Fn& body) {
        loop(name, i(0), i(count), i(1), true, body);
    }

private:
    std::vector<ir::Body*> bodies_;
    Place place_;
};

}  // namespace tessera::test

#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "dsl/base/convert.hpp"
#include "dsl/host/executor.hpp"
#include "dsl/ir/program.hpp"

// Lowered programs by hand, for the tests of the executor.

namespace host_test {

using namespace tessera;
using ir::BinaryOp;
using ir::Ref;
using Here = std::source_location;

class Builder {
public:
    std::shared_ptr<ir::Program> program = std::make_shared<ir::Program>();

    explicit Builder(std::string name, int threads = 128) {
        program->name = std::move(name);
        program->stage = ir::Stage::lowered;
        program->threads = threads;
        bodies_.push_back(&program->body);
    }

    // Expressions.
    Ref node(Element type, ir::Op op, int lanes = 1, Here at = Here::current()) {
        return program->arena->make(type, lanes == 1 ? Shape{} : Shape{lanes}, at, std::move(op));
    }
    Ref i64c(std::int64_t v) { return node(i64, ir::Constant{static_cast<std::uint64_t>(v)}); }
    Ref i32c(std::int32_t v) { return node(i32, ir::Constant{static_cast<std::uint32_t>(v)}); }
    Ref f32c(float v) { return node(f32, ir::Constant{convert::bits(v)}); }
    Ref constant(Element type, std::uint64_t bits, int lanes = 1) { return node(type, ir::Constant{bits}, lanes); }
    Ref thread() { return node(i32, ir::ThreadIndex{}); }
    Ref thread64() { return cast(i64, thread()); }
    Ref block() { return node(i64, ir::LinearBlock{}); }
    Ref op(BinaryOp o, Ref a, Ref b, Here at = Here::current()) {
        const bool compares = o >= BinaryOp::eq;
        return node(compares ? boolean : a->type, ir::Binary{o, a, b}, std::max(a->lanes(), b->lanes()), at);
    }
    Ref add(Ref a, Ref b) { return op(BinaryOp::add, a, b); }
    Ref mul(Ref a, Ref b) { return op(BinaryOp::mul, a, b); }
    Ref max(Ref a, Ref b) { return op(BinaryOp::max, a, b); }
    Ref less(Ref a, Ref b) { return op(BinaryOp::lt, a, b); }
    Ref both(Ref a, Ref b) { return op(BinaryOp::bit_and, a, b); }
    Ref unary(ir::UnaryOp o, Ref a) { return node(a->type, ir::Unary{o, a}, a->lanes()); }
    Ref fma(Ref a, Ref b, Ref c, Here at = Here::current()) {
        return node(a->type, ir::Fma{a, b, c}, std::max({a->lanes(), b->lanes(), c->lanes()}), at);
    }
    Ref bitcast(Element to, Ref a) { return node(to, ir::Bitcast{a}, bits_of(a->type) * a->lanes() / bits_of(to)); }
    Ref abs(Ref a) { return unary(ir::UnaryOp::abs, a); }
    Ref cast(Element to, Ref a) { return node(to, ir::Cast{a}, a->lanes()); }
    Ref lane(Ref a, int i) { return node(a->type, ir::Lane{a, i}); }
    Ref pack(std::vector<Ref> elements) {
        const int lanes = static_cast<int>(elements.size());
        const Element type = elements[0]->type;
        return node(type, ir::Pack{std::move(elements)}, lanes);
    }
    Ref shuffle(Ref a, int mask) { return node(a->type, ir::Shuffle{a, mask}, a->lanes()); }
    Ref select(Ref c, Ref a, Ref b) { return node(a->type, ir::Select{c, a, b}, a->lanes()); }
    Ref word(int array, Ref index, Here at = Here::current()) {
        const auto& a = program->arrays[static_cast<std::size_t>(array)];
        return node(a.type, ir::Register{array, index}, a.pack, at);
    }
    Ref word(int array, int index, Here at = Here::current()) { return word(array, i32c(index), at); }

    // Tables. A scalar is an i64.
    Ref scalar(std::string name) {
        program->scalars.push_back({std::move(name), i64, 1, {}});
        return node(i64, ir::Parameter{static_cast<int>(program->scalars.size()) - 1});
    }
    int tensor(std::string name, Element type, std::vector<ir::Axis> axes, ir::Role role = ir::Role::input) {
        program->tensors.push_back({std::move(name), type, role, std::move(axes), 1, {}});
        return static_cast<int>(program->tensors.size()) - 1;
    }
    int vector_tensor(std::string name, Element type, Ref extent) {
        return tensor(std::move(name), type, {{extent, i64c(1)}});
    }
    int tile(std::string name, Element type, Shape shape, std::int64_t byte_offset, ir::Swizzle swizzle = {}) {
        program->shared.push_back({std::move(name), type, shape, swizzle, {}, byte_offset});
        program->shared_bytes = std::max(program->shared_bytes, byte_offset + shape.count() * bits_of(type) / 8);
        return static_cast<int>(program->shared.size()) - 1;
    }
    int array(std::string name, Element type, int pack, int words) {
        program->arrays.push_back({std::move(name), type, pack, words, ""});
        const int index = static_cast<int>(program->arrays.size()) - 1;
        put(ir::Declare{index}, Here::current());
        return index;
    }
    void grid(std::vector<Ref> extents) { program->grid = std::move(extents); }

    // Statements.
    void put(ir::StatementOp op, Here at) { bodies_.back()->push_back({at, std::move(op)}); }
    Ref let(Ref value, Here at = Here::current()) {
        program->locals.push_back("v" + std::to_string(program->locals.size()));
        const int local = static_cast<int>(program->locals.size()) - 1;
        put(ir::Let{local, value}, at);
        return node(value->type, ir::Local{local}, value->lanes());
    }
    void set(int array, Ref index, Ref value, Here at = Here::current()) { put(ir::Set{array, index, value}, at); }
    void set(int array, int index, Ref value, Here at = Here::current()) { set(array, i32c(index), value, at); }
    void load(ir::Access access, int array, Ref index, Ref fill = nullptr, Here at = Here::current()) {
        put(ir::LoadVector{std::move(access), array, index, fill}, at);
    }
    void load(ir::Access access, int array, int index, Ref fill = nullptr, Here at = Here::current()) {
        load(std::move(access), array, i32c(index), fill, at);
    }
    void store(ir::Access access, std::vector<Ref> words, Here at = Here::current()) {
        put(ir::StoreVector{std::move(access), std::move(words)}, at);
    }
    void barrier(Here at = Here::current()) { put(ir::Barrier{}, at); }

    /// body(counter) records the loop's body.
    template <class Fn>
    void loop(Ref begin, Ref end, Ref step, bool unrolled, Fn&& fn, Here at = Here::current()) {
        const int id = program->loops++;
        ir::Body body;
        bodies_.push_back(&body);
        fn(node(unrolled ? i32 : i64, ir::LoopIndex{id}));
        bodies_.pop_back();
        put(ir::For{id, "i" + std::to_string(id), begin, end, step, unrolled, std::move(body)}, at);
    }

    host::Executable executable() const { return host::Executable(program); }

private:
    std::vector<ir::Body*> bodies_;
};

/// An access along the last axis; without a predicate every thread takes part.
inline ir::Access access(ir::Space space, int memory, std::vector<Ref> coordinates, Ref offset, int lanes = 1,
                         Ref predicate = nullptr) {
    const int axis = static_cast<int>(coordinates.size()) - 1;
    return {space, memory, std::move(coordinates), axis, offset, predicate, lanes};
}
inline ir::Access global(int memory, Ref index, int lanes = 1, Ref predicate = nullptr) {
    return access(ir::Space::global, memory, {index}, index, lanes, predicate);
}
inline ir::Access shared(int memory, Ref index, int lanes = 1, Ref predicate = nullptr) {
    return access(ir::Space::shared, memory, {index}, index, lanes, predicate);
}

/// Runs and returns the error's text; empty if there was none.
template <class ErrorClass>
std::string error_of(const host::Executable& e, const host::Arguments& arguments, host::Settings settings = {}) {
    try {
        e.run(arguments, settings);
    } catch (const ErrorClass& error) {
        return error.what();
    }
    return {};
}

}  // namespace host_test

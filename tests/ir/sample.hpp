#pragma once

#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

#include "dsl/ir/program.hpp"

// Programs made node by node, for the tests of dsl/ir.

namespace tessera::ir::sample {

inline Place line(std::uint32_t n) {
    Place place;
    place.file = "/home/writer/rms_norm.cpp";
    place.line = n;
    return place;
}

/// A program with short ways to add nodes and statements.
struct Build {
    Program p;
    std::uint32_t at = 1;  // the line of what is added next

    Ref node(Element type, Shape shape, Op op) { return p.arena->make(type, shape, line(at), std::move(op)); }
    Ref constant(Element type, std::uint64_t bits) { return node(type, {}, Constant{bits}); }
    Ref wide(std::int64_t n) { return constant(i64, static_cast<std::uint64_t>(n)); }
    Ref narrow(std::int32_t n) { return constant(i32, static_cast<std::uint32_t>(n)); }
    Ref real(float x) { return constant(f32, std::bit_cast<std::uint32_t>(x)); }
    Ref unary(UnaryOp op, Ref v) { return node(v->type, v->shape, Unary{op, v}); }
    Ref binary(BinaryOp op, Ref a, Ref b) {
        return node(op >= BinaryOp::eq ? boolean : a->type, a->shape, Binary{op, a, b});
    }
    Ref add(Ref a, Ref b) { return binary(BinaryOp::add, a, b); }
    Ref mul(Ref a, Ref b) { return binary(BinaryOp::mul, a, b); }
    Ref cast(Element to, Ref v) { return node(to, v->shape, Cast{v}); }

    Statement statement(StatementOp op) { return {line(at++), std::move(op)}; }
    Ref bind(Body& body, Ref value) {
        body.push_back(statement(Bind{value}));
        return value;
    }
};

/// Normalises rows of 1024 and counts turns in a variable: one of everything that a recorded program may hold.
struct Recorded : Build {
    Ref tokens, block, load, sum, read;

    Recorded() {
        p.name = "rms_norm";
        p.place = line(at++);
        p.scalars = {{"tokens", i64, 8, line(at)}};
        tokens = node(i64, {}, Parameter{0});
        at = 2;
        const Ref width = wide(1024), one = wide(1);
        p.tensors = {{"x", bf16, Role::input, {{tokens, width}, {width, one}}, 16, line(2)},
                     {"y", bf16, Role::output, {{tokens, width}, {width, one}}, 16, line(3)}};
        p.shared = {{"t", f32, {4, 64}, {2, 2, 4}, line(4), -1}};
        p.variables = {{"s", f32, {4, 1}, line(5)}};
        p.grid = {binary(BinaryOp::div, add(tokens, wide(3)), wide(4))};
        block = node(i64, {}, BlockIndex{0});
        at = 10;
        fill_body(one);
    }

    View rows(int tensor) { return {Space::global, tensor, {{mul(block, wide(4)), 4, false}, {wide(0), 1024, false}}}; }

    void fill_body(Ref one) {
        load = bind(p.body, node(bf16, {4, 1024}, Load{rows(0), constant(bf16, 0), {}}));
        const Ref v = bind(p.body, cast(f32, load));
        sum = bind(p.body, node(f32, {4, 1}, Reduce{ReduceOp::sum, mul(v, v), 1}));
        p.body.push_back(statement(Assign{0, sum}));
        For loop{p.loops++, "i", wide(0), tokens, one, false, {}};
        const Statement head = statement(std::move(loop));
        p.body.push_back(head);
        Body& inner = p.body.back().as<For>()->body;
        const Ref turn = bind(inner, node(f32, {4, 1}, VariableRead{0}));
        const Ref count = node(f32, {4, 1}, Broadcast{cast(f32, node(i64, {}, LoopIndex{0}))});
        inner.push_back(statement(Assign{0, add(turn, count)}));
        read = bind(p.body, node(f32, {4, 1}, VariableRead{0}));
        const Ref scale = node(f32, {4, 1024}, Broadcast{unary(UnaryOp::rsqrt, read)});
        p.body.push_back(statement(Store{rows(1), cast(bf16, mul(v, scale))}));
    }
};

/// Eight elements a thread: load, absolute value word by word, through shared memory, store. A lowered program.
struct Lowered : Build {
    Ref tokens, row, column, offset, inside;

    Lowered() {
        p.name = "absolute";
        p.stage = Stage::lowered;
        p.place = line(at++);
        p.scalars = {{"tokens", i64, 1, line(2)}};
        tokens = node(i64, {}, Parameter{0});
        const Ref width = wide(1024), one = wide(1);
        p.tensors = {{"x", bf16, Role::input, {{tokens, width}, {width, one}}, 16, line(2)},
                     {"y", bf16, Role::output, {{tokens, width}, {width, one}}, 16, line(3)}};
        p.shared = {{"t", bf16, {1024}, {}, line(4), 0}};
        p.shared_bytes = 2048;
        p.grid = {tokens};
        p.arrays = {{"xs", bf16, 2, 4, "[1, 1024]"}, {"ts", bf16, 2, 4, "[1, 1024]"}};
        p.locals = {"row", "column"};
        at = 10;
        addresses();
        body();
    }

    Ref word(int array, Ref index) { return node(bf16, {2}, Register{array, index}); }
    Ref thread() { return node(i32, {}, ThreadIndex{}); }

    void addresses() {
        p.body.push_back(statement(Let{0, node(i64, {}, LinearBlock{})}));
        p.body.push_back(statement(Let{1, mul(thread(), narrow(8))}));
        row = node(i64, {}, Local{0});
        column = node(i32, {}, Local{1});
        offset = add(mul(row, wide(1024)), cast(i64, column));
        inside = binary(BinaryOp::lt, row, tokens);
    }

    Access global(int tensor) { return {Space::global, tensor, {row, column}, 1, offset, inside, 8}; }
    Access tile() { return {Space::shared, 0, {column}, 0, column, nullptr, 8}; }
    std::vector<Ref> words(int array) {
        return {word(array, narrow(0)), word(array, narrow(1)), word(array, narrow(2)), word(array, narrow(3))};
    }

    void body() {
        p.body.push_back(statement(Comment{"v = load x"}));
        p.body.push_back(statement(Declare{0}));
        p.body.push_back(statement(LoadVector{global(0), 0, narrow(0), constant(bf16, 0)}));
        p.body.push_back(statement(For{p.loops++, "i", narrow(0), narrow(4), narrow(1), true, {}}));
        Body& inner = p.body.back().as<For>()->body;
        const Ref i = node(i32, {}, LoopIndex{0});
        inner.push_back(statement(Set{0, i, unary(UnaryOp::abs, word(0, i))}));
        p.body.push_back(statement(StoreVector{tile(), words(0)}));
        p.body.push_back(statement(Barrier{}));
        p.body.push_back(statement(Declare{1}));
        p.body.push_back(statement(LoadVector{tile(), 1, narrow(0), nullptr}));
        p.body.push_back(statement(StoreVector{global(1), words(1)}));
    }

    template <class Kind>
    Kind& first(Body& in) {
        for (Statement& s : in)
            if (auto* found = s.as<Kind>()) return *found;
        throw std::logic_error("the sample has no such statement");
    }
    template <class Kind>
    Kind& first() {
        return first<Kind>(p.body);
    }
};

}  // namespace tessera::ir::sample

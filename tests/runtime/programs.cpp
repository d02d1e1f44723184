#include "tests/runtime/programs.hpp"

#include <bit>

namespace tessera::test {

namespace {

using ir::BinaryOp;
using ir::Ref;

/// Makes nodes of one program.
struct Maker {
    ir::Arena& arena;
    Place place;

    Ref make(Element type, ir::Op op) const { return arena.make(type, {}, place, std::move(op)); }
    Ref number(std::int64_t n, Element type = i64) const {
        return make(type, ir::Constant{static_cast<std::uint64_t>(n)});
    }
    Ref scalar(int index, Element type = i64) const { return make(type, ir::Parameter{index}); }
    Ref binary(BinaryOp op, Ref a, Ref b) const { return make(a->type, ir::Binary{op, a, b}); }
    Ref ceil_div(Ref a, std::int64_t b) const {
        return binary(BinaryOp::div, binary(BinaryOp::add, a, number(b - 1)), number(b));
    }
};

Place here(std::uint32_t line) {
    Place place;
    place.file = "programs.cpp";
    place.line = line;
    return place;
}

}  // namespace

std::shared_ptr<ir::Program> scale_program(const char* name, int align) {
    auto program = std::make_shared<ir::Program>();
    ir::Program& p = *program;
    p.name = name;
    p.stage = ir::Stage::lowered;
    p.place = here(10);
    const Maker m{*p.arena, here(11)};
    const Ref n = m.scalar(0), factor = m.scalar(1, f32), one = m.number(1);
    p.scalars = {{"n", i64, 1, here(12)}, {"factor", f32, 1, here(13)}};
    p.tensors.push_back({"x", f32, ir::Role::input, {{n, one}}, align, here(14)});
    p.tensors.push_back({"y", f32, ir::Role::output, {{n, one}}, 4, here(15)});
    p.grid = {m.ceil_div(n, 128)};
    p.arrays.push_back({"v", f32, 1, 1, ""});
    p.locals = {"i"};

    const Ref thread = m.make(i64, ir::Cast{m.make(i32, ir::ThreadIndex{})});
    const Ref first = m.binary(BinaryOp::mul, m.make(i64, ir::LinearBlock{}), m.number(128));
    const Ref i = m.make(i64, ir::Local{0});
    const Ref inside = m.make(boolean, ir::Binary{BinaryOp::lt, i, n});
    const Ref zero = m.number(0, i32);
    const Ref value = m.make(f32, ir::Register{0, zero});
    const auto access = [&](int memory) { return ir::Access{ir::Space::global, memory, {i}, 0, i, inside, 1}; };
    p.body.push_back({here(16), ir::Let{0, m.binary(BinaryOp::add, first, thread)}});
    p.body.push_back({here(17), ir::Declare{0}});
    p.body.push_back({here(17), ir::LoadVector{access(0), 0, zero, m.make(f32, ir::Constant{0})}});
    p.body.push_back({here(18), ir::StoreVector{access(1), {m.binary(BinaryOp::mul, value, factor)}}});
    return program;
}

std::shared_ptr<ir::Program> cast_signature() {
    auto program = std::make_shared<ir::Program>();
    ir::Program& p = *program;
    p.name = "cast";
    p.place = here(20);
    const Maker m{*p.arena, here(21)};
    const Ref tokens = m.scalar(0), pitch = m.scalar(1), hidden = m.number(256), one = m.number(1);
    p.scalars = {{"tokens", i64, 1, here(22)},
                 {"pitch", i64, 8, here(23)},
                 {"eps", f32, 1, here(24)},
                 {"steps", i32, 1, here(25)},
                 {"flag", boolean, 1, here(26)}};
    const Ref groups = m.ceil_div(tokens, 128), words = m.binary(BinaryOp::mul, m.number(4), tokens);
    p.tensors.push_back({"x", bf16, ir::Role::input, {{tokens, pitch}, {hidden, one}}, 16, here(27)});
    p.tensors.push_back({"y", e4m3, ir::Role::output, {{tokens, hidden}, {hidden, one}}, 16, here(28)});
    p.tensors.push_back({"sf", f32, ir::Role::output, {{tokens, groups}, {groups, one}}, 4, here(29)});
    p.tensors.push_back(
        {"scale", u8, ir::Role::input, {{tokens, m.number(4)}, {m.number(6), words, 4, 1}}, 4, here(30)});
    p.grid = {m.ceil_div(tokens, 4), m.number(2)};
    return program;
}

}  // namespace tessera::test

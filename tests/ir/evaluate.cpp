#include "dsl/ir/evaluate.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "dsl/base/error.hpp"
#include "tests/ir/sample.hpp"

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

std::uint64_t f(float x) { return std::bit_cast<std::uint32_t>(x); }

/// a op b of one type, both as constants.
std::uint64_t apply(BinaryOp op, Element type, std::uint64_t a, std::uint64_t b) {
    Build s;
    return evaluate(s.binary(op, s.constant(type, a), s.constant(type, b)), {});
}
std::uint64_t apply(UnaryOp op, Element type, std::uint64_t a) {
    Build s;
    return evaluate(s.unary(op, s.constant(type, a)), {});
}
std::uint64_t converted(Element from, Element to, std::uint64_t a) {
    Build s;
    return evaluate(s.cast(to, s.constant(from, a)), {});
}

constexpr std::uint64_t minus = ~std::uint64_t{0};  // −1

}  // namespace

TEST_CASE("grids and strides are evaluated over scalars and counters") {
    Build s;
    const Ref tokens = s.node(i64, {}, Parameter{0}), hidden = s.node(i64, {}, Parameter{1});
    const Ref blocks = s.binary(BinaryOp::div, s.add(tokens, s.wide(3)), s.wide(4));
    const std::uint64_t scalars[] = {8001, 7168};
    CHECK(evaluate(blocks, scalars) == 2001);
    CHECK(evaluate(s.mul(blocks, hidden), scalars) == 2001 * 7168);
    const Counter counters[] = {{3, 5}, {1, -2}};
    CHECK(evaluate_integer(s.add(s.node(i64, {}, LoopIndex{3}), s.node(i64, {}, LoopIndex{1})), {}, counters) == 3);
    CHECK(evaluate_integer(s.node(i32, {}, LoopIndex{1}), {}, counters) == -2);
    CHECK(evaluate(s.node(i32, {}, LoopIndex{1}), {}, counters) == 0xFFFFFFFE);
}

TEST_CASE("integers wrap at their width and divide towards zero") {
    CHECK(apply(BinaryOp::add, i8, 0x7F, 1) == 0x80);
    CHECK(apply(BinaryOp::add, u8, 0xFF, 1) == 0);
    CHECK(apply(BinaryOp::sub, i32, 0, 1) == 0xFFFFFFFF);
    CHECK(apply(BinaryOp::mul, i64, minus, 5) == minus - 4);
    CHECK(apply(BinaryOp::div, i32, 0xFFFFFFF9, 2) == 0xFFFFFFFD);  // −7 / 2 = −3
    CHECK(apply(BinaryOp::mod, i32, 0xFFFFFFF9, 2) == 0xFFFFFFFF);  // −7 % 2 = −1
    CHECK(apply(BinaryOp::div, u32, 0xFFFFFFF9, 2) == 0x7FFFFFFC);
    CHECK(apply(BinaryOp::div, i64, std::uint64_t{1} << 63, minus) == std::uint64_t{1} << 63);
    CHECK(apply(BinaryOp::mod, i64, std::uint64_t{1} << 63, minus) == 0);
    CHECK(apply(BinaryOp::shr, i16, 0x8000, 15) == 0xFFFF);
    CHECK(apply(BinaryOp::shr, u16, 0x8000, 15) == 1);
    CHECK(apply(BinaryOp::shl, u8, 0x81, 1) == 2);
    CHECK(apply(BinaryOp::bit_xor, u8, 0xF0, 0x3C) == 0xCC);
    CHECK(apply(BinaryOp::min, i8, 0xFF, 1) == 0xFF);
    CHECK(apply(BinaryOp::max, i8, 0xFF, 1) == 1);
    CHECK(apply(BinaryOp::max, u8, 0xFF, 1) == 0xFF);
    CHECK(apply(BinaryOp::lt, i64, minus, 0) == 1);
    CHECK(apply(BinaryOp::lt, u64, minus, 0) == 0);
    CHECK(apply(UnaryOp::abs, i8, 0xFB) == 5);
    CHECK(apply(UnaryOp::abs, u8, 0xFB) == 0xFB);
    CHECK(apply(UnaryOp::neg, i16, 1) == 0xFFFF);
    CHECK(apply(UnaryOp::bit_not, boolean, 1) == 0);
    CHECK(apply(BinaryOp::bit_and, boolean, 1, 0) == 0);
    CHECK(apply(BinaryOp::eq, boolean, 1, 1) == 1);
}

TEST_CASE("f32 follows IEEE, and min and max drop NaN and order the zeros") {
    CHECK(apply(BinaryOp::add, f32, f(1.0f), f(0x1p-24f)) == f(1.0f));
    CHECK(apply(BinaryOp::div, f32, f(1.0f), f(3.0f)) == 0x3EAAAAAB);
    CHECK(apply(BinaryOp::div, f32, f(1.0f), f(-0.0f)) == 0xFF800000);
    CHECK(apply(BinaryOp::div, f32, f(0.0f), f(0.0f)) == 0x7FFFFFFF);
    CHECK(apply(BinaryOp::max, f32, 0x7FC00000, f(-2.0f)) == f(-2.0f));
    CHECK(apply(BinaryOp::min, f32, f(-2.0f), 0x7FC00000) == f(-2.0f));
    CHECK(apply(BinaryOp::max, f32, f(-0.0f), f(0.0f)) == f(0.0f));
    CHECK(apply(BinaryOp::max, f32, f(0.0f), f(-0.0f)) == f(0.0f));
    CHECK(apply(BinaryOp::min, f32, f(0.0f), f(-0.0f)) == f(-0.0f));
    CHECK(apply(BinaryOp::min, f32, f(1.0f), f(2.0f)) == f(1.0f));
    CHECK(apply(BinaryOp::max, f32, f(1.0f), f(2.0f)) == f(2.0f));
    CHECK(apply(BinaryOp::ne, f32, 0x7FC00000, 0x7FC00000) == 1);
    CHECK(apply(BinaryOp::ge, f32, 0x7FC00000, f(0.0f)) == 0);
    CHECK(apply(UnaryOp::neg, f32, f(0.0f)) == f(-0.0f));
    CHECK(apply(UnaryOp::abs, f32, f(-3.5f)) == f(3.5f));
    CHECK(apply(UnaryOp::rsqrt, f32, f(4.0f)) == f(0.5f));
}

TEST_CASE("casts keep the value where the target can") {
    CHECK(converted(i32, i64, 0xFFFFFFFF) == minus);
    CHECK(converted(u32, i64, 0xFFFFFFFF) == 0xFFFFFFFF);
    CHECK(converted(i64, i8, 0x1FF) == 0xFF);
    CHECK(converted(i32, f32, 0xFFFFFFFD) == f(-3.0f));
    CHECK(converted(f32, i32, f(-2.9f)) == 0xFFFFFFFE);
    CHECK(converted(f32, u8, f(300.0f)) == 255);
    for (const std::uint64_t nan : {0x7FC00000u, 0xFFC00000u, 0x7F800001u}) {  // 64-bit targets: 1 and zeros
        CHECK(converted(f32, i32, nan) == 0);
        CHECK(converted(f32, u8, nan) == 0);
        CHECK(converted(f32, i64, nan) == std::uint64_t{1} << 63);
        CHECK(converted(f32, u64, nan) == std::uint64_t{1} << 63);
    }
    CHECK(converted(boolean, i64, 1) == 1);
    CHECK(converted(i64, boolean, 6) == 1);
    Build s;
    CHECK(evaluate(s.node(u32, {}, Bitcast{s.real(1.0f)}), {}) == 0x3F800000);
    const Ref pick = s.node(i64, {}, Select{s.constant(boolean, 0), s.wide(1), s.wide(2)});
    CHECK(evaluate(pick, {}) == 2);
}

TEST_CASE("select evaluates only the side that it takes") {
    Build s;
    const Ref n = s.node(i64, {}, Parameter{0});
    const Ref guarded = s.node(
        i64, {}, Select{s.binary(BinaryOp::eq, n, s.wide(0)), s.wide(7), s.binary(BinaryOp::div, s.wide(70), n)});
    const std::uint64_t zero[] = {0}, ten[] = {10};
    CHECK(evaluate(guarded, zero) == 7);
    CHECK(evaluate(guarded, ten) == 7);
}

TEST_CASE("an integer division by zero is the caller's, with the writer's line") {
    Build s;
    s.at = 17;
    const Ref n = s.node(i64, {}, Parameter{0});
    const std::uint64_t zero[] = {0};
    CHECK_THROWS_WITH(evaluate(s.binary(BinaryOp::div, s.wide(1), n), zero),
                      Catch::Contains("rms_norm.cpp:17: integer division by zero"));
    CHECK_THROWS_AS(evaluate(s.binary(BinaryOp::mod, s.wide(1), n), zero), UsageError);
}

TEST_CASE("what is not known before a launch is refused") {
    Build s;
    const std::uint64_t one[] = {1};
    CHECK_THROWS_AS(evaluate(nullptr, {}), InternalError);
    CHECK_THROWS_AS(evaluate(s.node(i64, {}, Parameter{1}), one), InternalError);
    CHECK_THROWS_AS(evaluate(s.node(i64, {}, Parameter{-1}), one), InternalError);
    CHECK_THROWS_AS(evaluate(s.node(i64, {}, LoopIndex{0}), {}), InternalError);
    CHECK_THROWS_AS(evaluate(s.node(i32, {}, ThreadIndex{}), {}), InternalError);
    CHECK_THROWS_AS(evaluate(s.node(i64, {4}, Coordinate{0}), {}), InternalError);
    CHECK_THROWS_AS(evaluate(s.constant(bf16, 0), {}), InternalError);
    CHECK_THROWS_AS(evaluate(s.binary(BinaryOp::mod, s.real(1), s.real(1)), {}), InternalError);
    CHECK_THROWS_AS(evaluate(s.node(u64, {}, Bitcast{s.real(1)}), {}), InternalError);
    CHECK_THROWS_AS(evaluate_integer(s.real(1), {}), InternalError);
}

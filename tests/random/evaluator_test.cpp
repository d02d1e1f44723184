#include "tests/support/programs/evaluator.hpp"

#include <catch2/catch.hpp>

#include "dsl/front/kernel.hpp"
#include "dsl/ir/program.hpp"
#include "tests/support/programs/arithmetic.hpp"

// The evaluator against results worked by hand.

namespace {

using namespace tessera;
using namespace tessera::test;
using ir::BinaryOp;

template <class T>
std::vector<void*> bases(std::vector<T>& a, std::vector<T>& b) {
    return {a.data(), b.data()};
}

}  // namespace

TEST_CASE("edges read as the fill and are not written", "[evaluator]") {
    const Program p = record("row_sums", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<f32>("x", {n, 3});
        const auto y = k.output<f32>("y", {n, 1});
        const auto [m] = k.grid(ceil_div(n, 2));
        store(y.block({2, 1}, {m, 0}), reduce_sum(load(x.block({2, 4}, {m, 0}), 100.0f), axis<1>));
    });
    std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, y(4, -1);
    evaluate(p.ir(), bases(x, y), {3});
    CHECK(y == std::vector<float>{106, 115, 124, -1});
}

TEST_CASE("loops carry variables, shared tiles hold what was stored", "[evaluator]") {
    const Program p = record("prefix", [](Kernel& k) {
        const auto x = k.input<i32>("x", {3, 2});
        const auto y = k.output<i32>("y", {3, 2});
        const auto [m] = k.grid(1);
        auto last = k.shared<i32>("last", {1, 2});
        auto sum = k.variable(full<i32>({1, 2}, Value<i32, 0>(0)));
        k.serial(3, [&](Index i) {
            sum = sum.get() + load(x.block({1, 2}, {i, m}));
            store(last.whole(), sum.get().permute<0, 1>());
            store(y.block({1, 2}, {i, m}), load(last.whole()));
        });
    });
    std::vector<std::int32_t> x = {1, 2, 3, 4, 5, 6}, y(6, -1);
    evaluate(p.ir(), bases(x, y), {});
    CHECK(y == std::vector<std::int32_t>{1, 2, 4, 6, 9, 12});
}

TEST_CASE("split, permute and merge move elements where row-major order says", "[evaluator]") {
    const Program p = record("shuffle", [](Kernel& k) {
        const auto x = k.input<i32>("x", {1, 6});
        const auto y = k.output<i32>("y", {1, 6});
        const auto [m] = k.grid(1);
        const auto parts = load(x.block({1, 6}, {m, 0})).split(axis<1>, 3).permute<0, 2, 1>();
        store(y.block({1, 6}, {m, 0}), parts.merge(axis<1>));
    });
    std::vector<std::int32_t> x = {0, 1, 2, 10, 11, 12}, y(6, -1);
    evaluate(p.ir(), bases(x, y), {});
    CHECK(y == std::vector<std::int32_t>{0, 10, 1, 11, 2, 12});
}

TEST_CASE("operations on single elements", "[evaluator]") {
    const auto on_float = [](BinaryOp op, float a, float b) {
        return float_value(f32, apply(op, f32, float_bits(f32, a), float_bits(f32, b)));
    };
    CHECK(on_float(BinaryOp::max, NAN, 2) == 2);
    CHECK(on_float(BinaryOp::min, 3, NAN) == 3);
    CHECK(std::signbit(on_float(BinaryOp::min, 0.0f, -0.0f)));
    CHECK_FALSE(std::signbit(on_float(BinaryOp::max, -0.0f, 0.0f)));
    CHECK(apply(BinaryOp::add, i8, 0x7F, 1) == 0x80);
    CHECK(apply(BinaryOp::shr, i8, 0x80, 3) == 0xF0);
    CHECK(apply(BinaryOp::shr, u8, 0x80, 3) == 0x10);
    CHECK(apply(BinaryOp::div, i32, static_cast<std::uint32_t>(-7), 2) == static_cast<std::uint32_t>(-3));
    CHECK(apply(BinaryOp::mod, i32, static_cast<std::uint32_t>(-7), 2) == static_cast<std::uint32_t>(-1));
    CHECK(apply(BinaryOp::lt, i16, 0xFFFF, 0) == 1);
    CHECK(apply(BinaryOp::lt, u16, 0xFFFF, 0) == 0);
    CHECK(convert(f32, i32, float_bits(f32, -2.9f)) == static_cast<std::uint32_t>(-2));
    CHECK(convert(f32, i8, float_bits(f32, 300)) == 0x7F);
    CHECK(convert(i32, f32, 16777217) == float_bits(f32, 16777216));
    CHECK(convert(f32, e4m3, float_bits(f32, -1e9f)) == 0xFE);
    CHECK(convert(bf16, f32, 0xC000) == float_bits(f32, -2));
}

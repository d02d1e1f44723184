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

TEST_CASE("copies bring zeros from outside, in a pipeline too", "[evaluator]") {
    const Program p = record("copies", [](Kernel& k) {
        const auto x = k.input<i32>("x", {5, 2});
        const auto y = k.output<i32>("y", {2, 2});
        k.grid(1);
        const auto one = k.shared<i32>("one", {2, 2});
        const auto slots = k.shared<i32>("slots", {2, 2, 2});
        copy_async(one.whole(), x.window({2, 2}, {4, 0}));
        wait_copies();
        auto sum = k.variable(load(one.whole()));
        k.pipelined(
            3, {.stages = 2}, [&](Index i, Index slot) { copy_async(slots[slot].whole(), x.block({2, 2}, {i, 0})); },
            [&](Index i, Index slot) { sum = sum.get() * 10 + load(slots[slot].whole()) + cast<i32>(i); });
        store(y.window({2, 2}, {0, 0}), sum.get());
    });
    std::vector<std::int32_t> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 4}, y(4, -1);
    evaluate(p.ir(), bases(x, y), {});
    CHECK(y == std::vector<std::int32_t>{9171, 4276, 382, 492});
}

TEST_CASE("a ring hands each fill to each of its users, in order", "[evaluator]") {
    const Program p = record("rings", [](Kernel& k) {
        const auto x = k.input<i32>("x", {3, 4});
        const auto y = k.output<i32>("y", {4}), z = k.output<i32>("z", {4});
        k.grid(1);
        const auto tile = k.shared<i32>("tile", {2, 4});
        const auto ring = k.ring({.stages = 2});
        const auto use = [&](const Global<i32, 1>& out, int by) {
            auto sum = k.variable(full({4}, Value<i32, 0>(0)));
            k.serial(3, [&](Index) { ring.use([&](Index slot) { sum = sum.get() * by + load(tile[slot].whole()); }); });
            store(out.window({4}, {0}), sum.get());
        };
        k.roles(
            {.name = "ten"}, [&] { use(y, 10); }, {.name = "two"}, [&] { use(z, 2); }, {.name = "copier"},
            [&] {
                k.serial(3, [&](Index i) {
                    ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[i].block({4}, {0})); });
                });
            });
    });
    std::vector<std::int32_t> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, y(4, -1), z(4, -1);
    evaluate(p.ir(), {x.data(), y.data(), z.data()}, {});
    CHECK(y == std::vector<std::int32_t>{159, 261, 372, 483});
    CHECK(z == std::vector<std::int32_t>{23, 21, 28, 35});
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
    CHECK(convert(f32, f16, float_bits(f32, -2.5f)) == 0xC100);
    CHECK(convert(f32, f16, float_bits(f32, 65519)) == 0x7BFF);
    CHECK(convert(f32, f16, float_bits(f32, 65520)) == 0x7C00);
    CHECK(convert(f32, f16, float_bits(f32, 0x1p-25f)) == 0);
    CHECK(convert(f32, f16, float_bits(f32, 0x1.8p-25f)) == 1);
    CHECK(convert(f32, f16, float_bits(f32, 0x1.ffep-15f)) == 0x0400);
    CHECK(convert(f16, f32, 0x0001) == float_bits(f32, 0x1p-24f));
    CHECK(convert(f16, f32, 0x7BFF) == float_bits(f32, 65504));
    CHECK(convert(f32, tf32, float_bits(f32, 1 + 0x1p-11f)) == float_bits(f32, 1 + 0x1p-10f));
    CHECK(convert(f32, tf32, float_bits(f32, 1 + 0x1.fp-12f)) == float_bits(f32, 1));
}

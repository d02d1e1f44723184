#include "dsl/lower/expressions.hpp"

#include <limits>

#include "tests/lower/run.hpp"

// Whole-number arithmetic that is folded while lowering, and what is known of numbers before a launch.

using namespace tessera;
using namespace tessera::test;
using ir::BinaryOp;
using lower::constant_value;
using lower::Expressions;
using lower::Facts;

namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

}  // namespace

TEST_CASE("folding wraps as the device does and never traps", "[lower]") {
    ir::Arena arena;
    Expressions e(arena);
    const auto folded = [&](BinaryOp op, Element type, std::int64_t a, std::int64_t b) {
        std::int64_t value = 0;
        REQUIRE(constant_value(e.binary(op, e.number(type, a), e.number(type, b)), value));
        return value;
    };
    CHECK(folded(BinaryOp::add, i64, least, -1) == std::numeric_limits<std::int64_t>::max());
    CHECK(folded(BinaryOp::mul, i64, std::int64_t{1} << 62, 6) == least);
    CHECK(folded(BinaryOp::add, i32, std::numeric_limits<std::int32_t>::max(), 1) ==
          std::numeric_limits<std::int32_t>::min());
    CHECK(folded(BinaryOp::sub, u32, 0, 1) == 0xFFFFFFFF);
    CHECK(folded(BinaryOp::add, i8, 127, 1) == -128);
    CHECK(folded(BinaryOp::shr, i32, -8, 1) == -4);
    CHECK(folded(BinaryOp::shl, i64, -3, 2) == -12);
    CHECK(folded(BinaryOp::div, i64, -7, 2) == -3);
    CHECK(folded(BinaryOp::mod, i64, -7, 2) == -1);
    std::int64_t value = 0;
    // Left to the device: a division by 0 or −1, and u64 past the sign.
    CHECK_FALSE(constant_value(e.binary(BinaryOp::div, e.i64(least), e.i64(-1)), value));
    CHECK_FALSE(constant_value(e.binary(BinaryOp::mod, e.i64(least), e.i64(-1)), value));
    CHECK_FALSE(constant_value(e.binary(BinaryOp::div, e.i64(5), e.i64(0)), value));
    CHECK_FALSE(constant_value(e.binary(BinaryOp::div, e.number(u64, -1), e.number(u64, 2)), value));
    CHECK_FALSE(constant_value(e.binary(BinaryOp::lt, e.number(u64, -1), e.number(u64, 2)), value));
}

TEST_CASE("u64 past the sign is divided and compared as unsigned", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const auto y = k.output<u64>("y", {4});
        k.grid(1);
        const Value<u64, 0> big(~std::uint64_t{0});
        store(y[0], big / std::uint64_t{3});
        store(y[1], big >> std::uint64_t{60});
        store(y[2], select(big < std::uint64_t{2}, Value<u64, 0>(std::uint64_t{1}), Value<u64, 0>(std::uint64_t{5})));
        store(y[3], big % std::uint64_t{1000});
    });
    on_targets(p, [](const Lowered& kernel) {
        std::vector<std::uint64_t> y(4);
        kernel.run({}, y);
        CHECK(y == std::vector<std::uint64_t>{0x5555555555555555u, 15, 5, ~std::uint64_t{0} % 1000});
    });
}

TEST_CASE("signs and bounds of offsets", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim rows = k.dim("rows", multiple_of(8)), pitch = k.dim("pitch"), other = k.dim("other");
        const auto x = k.inout<f32>("x", {rows, 64}, {.strides = {pitch, 1}});
        const auto [m] = k.grid(ceil_div(rows, 8));
        const auto touch = [&](Index down, Index right) {
            store(x.window({8, 16}, {down, right}), full({8, 16}, Value<f32, 0>(1.0f)));
        };
        touch(m * 8, 48);                 // inside on all sides
        touch(m * 8, 49);                 // past the right
        touch(m * 8 - 1, 0);              // before the top
        touch(max(other, 0), other % 3);  // other may be negative
        touch(pitch, other);              // strides may be negative too
        touch(rows - m, 0);
        k.serial(ceil_div(rows, 8), [&](Index i) { touch(i * 8, i % 4 * 16); });
        k.serial(5, [&](Index i) { touch(i * 8, i * 12); });
    });
    const Facts facts(p.ir());
    std::vector<const ir::Store*> stores;
    ir::for_each_statement(p.ir().body, [&](const ir::Statement& s) {
        if (const auto* st = s.as<ir::Store>()) stores.push_back(st);
    });
    const auto& axes = p.ir().tensors[0].axes;
    const auto known = [&](std::size_t store, std::size_t axis) {
        const ir::ViewAxis& v = stores[store]->view.axes[axis];
        return std::pair(facts.non_negative(v.offset), facts.inside(v.offset, v.extent, axes[axis].extent));
    };
    using Known = std::pair<bool, bool>;
    REQUIRE(stores.size() == 8);
    CHECK(known(0, 0) == Known{true, true});
    CHECK(known(0, 1) == Known{true, true});
    CHECK(known(1, 1) == Known{true, false});
    CHECK(known(2, 0) == Known{false, false});
    CHECK(known(3, 0) == Known{true, false});
    CHECK(known(3, 1) == Known{false, true});
    CHECK(known(4, 0) == Known{false, false});
    CHECK(known(4, 1) == Known{false, false});
    CHECK(known(5, 0) == Known{false, false});
    CHECK(known(6, 0) == Known{true, true});  // a loop over the tensor's own tiles
    CHECK(known(6, 1) == Known{true, true});
    CHECK(known(7, 1) == Known{true, true});  // 4 · 12 + 16 = 64
}

#include <bit>
#include <limits>

#include "dsl/ir/program.hpp"
#include "tests/front/refused.hpp"

// C++ numbers become elements exactly, or are refused.

using namespace tessera;
using namespace tessera::test;

namespace {

template <Element T, class N>
std::string refused_number(N n) {
    return refused([n](Kernel&) { Value<T, 0> v(n); });
}

/// The encoding that a number gets.
template <Element T, class N>
std::uint64_t bits(N n) {
    std::uint64_t result = 0;
    record("kernel", [&](Kernel& k) {
        k.grid(1);
        result = Value<T, 0>(n).node()->template as<ir::Constant>()->bits;
    });
    return result;
}

}  // namespace

TEST_CASE("whole numbers that do not fit are refused", "[front]") {
    CHECK_THAT(refused_number<i8>(128), says("does not fit i8"));
    CHECK_THAT(refused_number<i8>(-129), says("does not fit i8"));
    CHECK_THAT(refused_number<u8>(-1), says("does not fit u8"));
    CHECK_THAT(refused_number<u8>(256), says("does not fit u8"));
    CHECK_THAT(refused_number<u64>(-1), says("does not fit u64"));
    CHECK_THAT(refused_number<i64>(~std::uint64_t{0}), says("does not fit i64"));
    CHECK_THAT(refused_number<u32>(std::uint64_t{1} << 63), says("does not fit u32"));
    CHECK_THAT(refused_number<boolean>(2), says("does not fit bool"));
}

TEST_CASE("whole numbers at the ends of their types", "[front]") {
    CHECK(bits<i8>(-128) == 0x80);
    CHECK(bits<u64>(~std::uint64_t{0}) == ~std::uint64_t{0});
    CHECK(bits<u64>(std::uint64_t{1} << 63) == std::uint64_t{1} << 63);
    CHECK(bits<i64>(std::numeric_limits<std::int64_t>::min()) == std::uint64_t{1} << 63);
    CHECK(bits<f64>(~std::uint64_t{0}) == std::bit_cast<std::uint64_t>(0x1p64));
    CHECK(bits<boolean>(true) == 1);
}

TEST_CASE("a double is rounded once", "[front]") {
    // 1 + 2⁻⁸ + 2⁻⁴⁰ lies above the middle of 1 and 1 + 2⁻⁷; rounded to f32 first, it would be the middle and go to
    // even.
    CHECK(bits<bf16>(1 + 0x1p-8 + 0x1p-40) == 0x3F81);
    CHECK(bits<bf16>(1 + 0x1p-8) == 0x3F80);
    CHECK(bits<f16>(1 + 0x1p-11 + 0x1p-40) == 0x3C01);
}

TEST_CASE("whole numbers are not divided by 0 nor shifted past their width", "[front]") {
    const auto on = [](auto op) { return refused([op](Kernel& k) { op(full({4}, k.scalar<i32>("n"))); }); };
    CHECK_THAT(on([](auto v) { v / 0; }), says("divided by 0"));
    CHECK_THAT(on([](auto v) { v % 0; }), says("divided by 0"));
    CHECK_THAT(on([](auto v) { v << 32; }), says("count from 0 to 31"));
    CHECK_THAT(on([](auto v) { v >> -1; }), says("count from 0 to 31"));
    CHECK_THAT(refused([](Kernel& k) { k.dim("n") / 0; }), says("divided by 0"));
}

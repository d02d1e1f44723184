#include "runtime/launch/term.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>

using namespace tessera;
using ir::BinaryOp;
using ir::Ref;
using runtime::Term;

namespace {

struct Expressions {
    ir::Arena arena;
    Ref number(std::int64_t n) { return arena.make(i64, {}, {}, ir::Constant{static_cast<std::uint64_t>(n)}); }
    Ref scalar(int index) { return arena.make(i64, {}, {}, ir::Parameter{index}); }
    Ref binary(BinaryOp op, Ref a, Ref b) { return arena.make(a->type, {}, {}, ir::Binary{op, a, b}); }
};

}  // namespace

TEST_CASE("terms know what they are") {
    Expressions e;
    const Ref m = e.scalar(1), three = e.number(3);
    CHECK(Term(three).is_constant());
    CHECK(Term(e.binary(BinaryOp::mul, three, e.number(5))).is_constant());
    CHECK(Term(m).scalar() == 1);
    CHECK(Term(e.binary(BinaryOp::mul, m, e.number(1))).scalar() == 1);
    CHECK(Term(e.binary(BinaryOp::add, m, three)).scalar() == -1);
    CHECK_FALSE(Term(e.binary(BinaryOp::add, m, three)).is_constant());
    CHECK(Term(e.binary(BinaryOp::mul, e.binary(BinaryOp::div, m, e.number(4)), e.number(1))).scalar() == -1);
}

TEST_CASE("a term has the value of plain arithmetic") {
    Expressions e;
    const Ref n = e.scalar(0), m = e.scalar(1);
    const auto c = [&](std::int64_t value) { return e.number(value); };
    for (const std::int64_t x : {-1000, -7, -1, 0, 1, 5, 127, 128, 129, 100'000})
        for (const std::int64_t y : {1, 3, 64}) {
            const std::array values = {static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y)};
            CHECK(Term(n)(values) == x);
            const Ref quarter = e.binary(BinaryOp::div, e.binary(BinaryOp::add, n, c(3)), c(4));
            const Ref padded = e.binary(BinaryOp::mul, quarter, c(4));
            CHECK(Term(padded)(values) == (x + 3) / 4 * 4);
            CHECK(Term(e.binary(BinaryOp::sub, padded, c(5)))(values) == (x + 3) / 4 * 4 - 5);
            CHECK(Term(e.binary(BinaryOp::mul, e.binary(BinaryOp::add, c(2), padded), c(-3)))(values) ==
                  ((x + 3) / 4 * 4 + 2) * -3);
            const Ref eighths = e.binary(BinaryOp::div, e.binary(BinaryOp::add, padded, c(7)), c(8));
            CHECK(Term(eighths)(values) == ((x + 3) / 4 * 4 + 7) / 8);
            CHECK_FALSE(Term(eighths).is_general());
            CHECK(Term(e.binary(BinaryOp::div, padded, c(24)))(values) == (x + 3) / 4 * 4 / 24);
            CHECK(Term(e.binary(BinaryOp::mul, eighths, c(8)))(values) == ((x + 3) / 4 * 4 + 7) / 8 * 8);
            CHECK(Term(e.binary(BinaryOp::add, padded, n))(values) == (x + 3) / 4 * 4 + x);
            CHECK(Term(e.binary(BinaryOp::add, c(127), n))(values) == x + 127);
            CHECK(Term(e.binary(BinaryOp::sub, n, c(5)))(values) == x - 5);
            CHECK(Term(e.binary(BinaryOp::sub, c(5), n))(values) == 5 - x);
            CHECK(Term(e.binary(BinaryOp::div, e.binary(BinaryOp::add, n, c(127)), c(128)))(values) == (x + 127) / 128);
            CHECK(Term(e.binary(BinaryOp::mul, e.binary(BinaryOp::add, n, c(2)), c(-3)))(values) == (x + 2) * -3);
            CHECK(Term(e.binary(BinaryOp::mul, e.binary(BinaryOp::div, n, c(4)), c(4)))(values) == x / 4 * 4);
            CHECK(Term(e.binary(BinaryOp::div, n, c(-4)))(values) == x / -4);
            CHECK(Term(e.binary(BinaryOp::mul, n, m))(values) == x * y);
            CHECK(Term(e.binary(BinaryOp::div, c(1000), m))(values) == 1000 / y);
            CHECK(Term(e.binary(BinaryOp::mod, n, c(7)))(values) == x % 7);
            CHECK(Term(e.binary(BinaryOp::max, n, m))(values) == (x > y ? x : y));
            CHECK(Term(e.binary(BinaryOp::div, e.binary(BinaryOp::mul, c(6), c(7)), c(4)))(values) == 10);
        }
}

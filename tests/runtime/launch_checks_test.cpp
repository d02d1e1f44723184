#include <array>
#include <catch2/catch.hpp>
#include <cstdint>

#include "runtime/launch/checks.hpp"

using namespace tessera;
using runtime::LaunchChecks;
using runtime::LayoutCheck;
using runtime::ScalarBinding;
using runtime::TensorCheck;
using runtime::Term;

TEST_CASE("the checks of a launch lie behind one another, in the order in which they are done") {
    ir::Arena arena;
    const auto number = [&](std::int64_t n) {
        return Term(arena.make(i64, {}, {}, ir::Constant{static_cast<std::uint64_t>(n)}));
    };
    const std::array tensors = {TensorCheck{15, bf16, 2, false, false}, TensorCheck{0, f32, 1, true, false}};
    const std::array scalars = {ScalarBinding{8, "pitch", ScalarBinding::From::stride, i64, 0, 0},
                                ScalarBinding{1, "eps", ScalarBinding::From::given, f32, 0, 0}};
    const std::array layouts = {LayoutCheck{LayoutCheck::What::extent, 1, 0, LayoutCheck::Expected::term, 0}};
    const std::array terms = {number(3), number(5), number(7)};
    const LaunchChecks checks(tensors, scalars, layouts, terms, 2);

    CHECK(checks.tensors()[1].type == f32);
    CHECK(checks.scalars()[0].multiple_of == 8);
    CHECK(checks.given() == 1);
    CHECK(checks.term(0)({}) == 3);
    REQUIRE(checks.grid().size() == 2);
    CHECK(checks.grid()[1]({}) == 7);

    const auto* const at = reinterpret_cast<const std::byte*>(checks.tensors().data());
    const auto lies = [&](const void* what) { return static_cast<const std::byte*>(what) - at; };
    CHECK(lies(checks.scalars().data()) == 2 * sizeof(TensorCheck));
    CHECK(lies(checks.layouts().data()) == 2 * sizeof(TensorCheck) + 2 * sizeof(ScalarBinding));
    CHECK(lies(&checks.grid()[0]) ==
          2 * sizeof(TensorCheck) + 2 * sizeof(ScalarBinding) + sizeof(LayoutCheck) + sizeof(Term));
    // Small enough for a matrix cast's to fill few lines of the cache.
    CHECK(sizeof(TensorCheck) == 8);
    CHECK(sizeof(ScalarBinding) <= 24);
    CHECK(sizeof(LayoutCheck) == 16);
    CHECK(sizeof(Term) <= 64);
}

TEST_CASE("a plan without tensors and numbers has nothing to check") {
    const LaunchChecks checks({}, {}, {}, {}, 0);
    CHECK(checks.tensors().empty());
    CHECK(checks.grid().empty());
    CHECK(checks.given() == 0);
}

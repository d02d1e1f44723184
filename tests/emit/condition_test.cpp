#include <catch2/catch.hpp>
#include <tessera/dsl.hpp>

#include "dsl/emit/cuda.hpp"
#include "dsl/lower/lower.hpp"
#include "tests/emit/sass.hpp"

// What k.when(…).otherwise(…) becomes.

using namespace tessera;
using namespace tessera::test;

namespace {

/// body(kernel, v, y) with a tile v of 128 numbers, and where it comes from and goes to.
template <class Body>
std::string text_of(Body&& body) {
    const Program program = record("cases", [&](Kernel& k) {
        const auto x = k.input<f32>("x", {128});
        const auto y = k.output<f32>("y", {128});
        k.threads(128);
        k.grid(1);
        auto v = k.variable(load(x.window({128}, {0})));
        body(k, v);
        store(y.window({128}, {0}), v.get());
    });
    return emit::cuda_text(lower::lower(program.ir(), Target::h200()), Target::h200());
}

}  // namespace

TEST_CASE("the other case of a condition is an else", "[emit]") {
    const auto doubled = [](auto& v) { return [&] { v = v.get() * 2.0f; }; };
    const auto halved = [](auto& v) { return [&] { v = v.get() * 0.5f; }; };
    const std::string text =
        text_of([&](Kernel& k, auto& v) { k.when(warp_all(v.get() > 1.0f), doubled(v)).otherwise(halved(v)); });
    CHECK(count_of(text, "if (vote) {") == 1);
    CHECK(count_of(text, "if (!vote) {") == 0);
    CHECK(count_of(text, "else {") == 1);
}

TEST_CASE("a condition behind another, or behind a statement, stays one of its own", "[emit]") {
    const std::string text = text_of([](Kernel& k, auto& v) {
        const auto large = warp_all(v.get() > 1.0f), small = warp_all(v.get() < 0.5f);
        const auto shrink = [&] { v = v.get() * 0.5f; };
        k.when(large, shrink);
        k.when(small, shrink);
        const auto between = k.when(small, shrink);
        v = v.get() + 1.0f;
        between.otherwise(shrink);
    });
    CHECK(count_of(text, "else {") == 0);
    CHECK(count_of(text, "if (!") == 1);
}

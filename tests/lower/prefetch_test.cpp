#include "tests/lower/run.hpp"

// Prefetches: a row each for lanes of the first warp, no change of any result.

using namespace tessera;
using namespace tessera::test;

namespace {

Program copying(std::int64_t cols, std::int64_t piece, bool next) {
    return record("kernel", [=](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<f32>("x", {n, cols});
        const auto y = k.output<f32>("y", {n, cols});
        k.threads(64);
        k.grid(1);
        k.serial(ceil_div(n, 4), [&](Index i) {
            prefetch(x.window({4, piece}, {next ? (i + 1) * 4 : i * 4, 0}));
            store(y.block({4, cols}, {i, 0}), load(x.block({4, cols}, {i, 0})));
        });
    });
}

}  // namespace

TEST_CASE("a prefetch names rows, those outside not, and changes nothing", "[lower]") {
    on_targets(copying(64, 32, true), [](const Lowered& kernel) {
        CHECK(kernel.count<ir::PrefetchRow>() == 1);
        CHECK(kernel.count<ir::Barrier>() == 0);
        CHECK(kernel.text().find("cp.async.bulk.prefetch.L2.global") != std::string::npos);
        CHECK(kernel.text().find(", 128);") != std::string::npos);  // bytes of a row
        for (const std::uint64_t n : {1u, 4u, 9u}) {
            auto x = numbers<float>(static_cast<std::int64_t>(n) * 64);
            std::vector<float> y(x.size());
            kernel.run({n}, x, y);
            CHECK(x == y);
        }
    });
}

TEST_CASE("prefetches of rows that are not whole are refused on their line", "[lower]") {
    CHECK_THROWS_WITH(
        Lowered(copying(66, 32, false), Target::h200()),
        Catch::Contains("a prefetch moves whole rows of a piece") && Catch::Contains("prefetch_test.cpp"));
}

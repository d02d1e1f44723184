#include <algorithm>
#include <cmath>

#include "tests/lower/run.hpp"

// Conditions that hold for a whole block, votes, and loops that are written out.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("a block takes one case or the other", "[lower]") {
    for (const TileShape& s : tile_shapes()) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const Program p = record("branches", [=](Kernel& k) {
            const Dim r = k.dim("rows");
            const auto x = k.input<i32>("x", {r, s.cols});
            const auto y = k.output<i32>("y", {r, s.cols});
            k.threads(s.threads);
            const auto [m] = k.grid(ceil_div(r, s.rows));
            const auto v = load(x.block({s.rows, s.cols}, {m, 0}));
            auto state = k.variable(v);
            k.when(any(v == 9), [&] {
                 const auto total = reduce_sum(v, axis<0>);
                 state = v + total;
             }).otherwise([&] { state = -v; });
            k.when(all(v < 9), [&] { k.when(m == 1, [&] { state = state.get() * 2; }); });
            store(y.block({s.rows, s.cols}, {m, 0}), state.get());
        });
        on_targets(p, [&](const Lowered& kernel) {
            CHECK(kernel.text().find("if (") != std::string::npos);
            const std::int64_t blocks = 3, rows = blocks * s.rows;
            auto x = numbers<std::int32_t>(rows * s.cols, -8, 8);
            x.back() = 9;  // the last block differs
            std::vector<std::int32_t> y(x.size());
            kernel.run({static_cast<std::uint64_t>(rows)}, x, y);
            for (std::int64_t i = 0; i < rows * s.cols; ++i) {
                const std::int64_t block = i / s.cols / s.rows, column = i % s.cols;
                std::int32_t total = 0;
                for (std::int64_t r = block * s.rows; r < (block + 1) * s.rows; ++r) total += x[r * s.cols + column];
                const std::int32_t expected = block == blocks - 1 ? x[i] + total : block == 1 ? -2 * x[i] : -x[i];
                REQUIRE(y[i] == expected);
            }
        });
    }
}

TEST_CASE("a condition on a number that was loaded, around loads, stores and shared tiles", "[lower]") {
    const Program p = record("guarded", [](Kernel& k) {
        const auto flag = k.input<i32>("flag", {4});
        const auto x = k.input<f32>("x", {4, 64});
        const auto y = k.output<f32>("y", {4, 64});
        k.threads(64);
        const auto [m] = k.grid(4);
        auto tile = k.shared<f32>("tile", {64});
        k.when(load(flag[m]) > 0, [&] {
            store(tile.whole(), load(x[m].window({64}, {0})) * 2.0f);
            const auto turned = load(tile.window({64}, {0})).split(axis<0>, 8).permute<1, 0>().merge(axis<0>);
            store(y[m].window({64}, {0}), turned);
        });
    });
    on_targets(p, [&](const Lowered& kernel) {
        std::vector<std::int32_t> flag = {1, 0, -3, 2};
        auto x = numbers<float>(256);
        std::vector<float> y(256, 5.0f);
        kernel.run({}, flag, x, y);
        for (std::size_t i = 0; i < y.size(); ++i) {
            const std::size_t m = i / 64, j = i % 64;
            CHECK(y[i] == (flag[m] > 0 ? 2 * x[m * 64 + j % 8 * 8 + j / 8] : 5.0f));
        }
    });
}

TEST_CASE("a loop that is written out knows its index", "[lower]") {
    const Program p = record("columns", [](Kernel& k) {
        const auto x = k.input<f32>("x", {8, 4}, {.align = 4});
        const auto y = k.output<f32>("y", {8, 1}, {.align = 4});
        k.threads(32);
        k.grid(1);
        auto sum = k.variable(full({8, 1}, Value<f32, 0>(0.5f)));
        k.unrolled(4, [&](const Index& i) { sum = sum.get() + load(x.window({8, 1}, {0, i})); });
        store(y.block({8, 1}, {0, 0}), sum.get());
    });
    on_targets(p, [&](const Lowered& kernel) {
        CHECK(kernel.count<ir::For>() == 0);
        auto x = numbers<float>(32);
        std::vector<float> y(8);
        kernel.run({}, x, y);
        for (std::size_t r = 0; r < 8; ++r) CHECK(y[r] == 0.5f + x[4 * r] + x[4 * r + 1] + x[4 * r + 2] + x[4 * r + 3]);
    });
}

TEST_CASE("warps take one case or the other", "[lower]") {
    const Program p = record("by_warps", [](Kernel& k) {
        const auto x = k.input<f32>("x", {2, 512});
        const auto y = k.output<f32>("y", {2, 512});
        const auto way = k.output<i32>("way", {2, 128}, {.align = 4});
        k.threads(128);
        const auto [m] = k.grid(2);
        const auto v = load(x.block({1, 512}, {m, 0}), {.per_thread = {1, 4}, .cache = Cache::streaming});
        const auto least = reduce_min(v.split(axis<1>, 4), axis<2>).squeeze(axis<2>);
        auto taken = k.variable(full({1, 128}, Value<i32, 0>(0)));
        const auto put = [&](const Value<f32, 2>& value) {
            // The largest of eight neighbouring threads' values: lanes of one warp.
            const auto most = reduce_max(value.split(axis<1>, 32), axis<2>);
            store(y.block({1, 512}, {m, 0}), (value.split(axis<1>, 32) + most).merge(axis<1>),
                  {.cache = Cache::streaming});
        };
        k.when(warp_all(least > 0.0f), [&] {
             put(v);
             taken = full({1, 128}, Value<i32, 0>(1));
         }).otherwise([&] {
            put(abs(v));
            k.when(warp_any(least < -100.0f), [&] { taken = full({1, 128}, Value<i32, 0>(2)); });
        });
        store(way.block({1, 128}, {m, 0}), taken.get());
    });
    on_targets(p, [&](const Lowered& kernel) {
        CHECK(kernel.count<ir::Barrier>() == 0);
        CHECK(kernel.text().find("st.global.cs") != std::string::npos);
        CHECK(kernel.text().find("ld.global.cs.nc") != std::string::npos);
        auto x = numbers<float>(1024, 1, 90);
        x[130] = -7, x[600] = -0.0f, x[1000] = -200;  // warps 1, 4 and 7
        std::vector<float> y(1024);
        std::vector<std::int32_t> way(256);
        kernel.run({}, x, y, way);
        const std::int32_t ways[] = {1, 0, 1, 1, 0, 1, 1, 2};
        for (std::size_t i = 0; i < 256; ++i) CHECK(way[i] == ways[i / 32]);
        for (std::size_t i = 0; i < 1024; ++i) {
            float most = 0;
            for (std::size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) most = std::max(most, std::fabs(x[j]));
            CHECK(y[i] == std::fabs(x[i]) + most);
        }
    });
}

TEST_CASE("what crosses warps is refused inside a condition by warps", "[lower]") {
    const auto refused = [](bool all) {
        const Program p = record("crossing", [=](Kernel& k) {
            const auto x = k.input<f32>("x", {512});
            const auto y = k.output<f32>("y", {512});
            k.threads(128);
            k.grid(1);
            const auto v = load(x.block({512}, {0}));
            k.when(warp_any(v > 0.0f), [&] {
                const auto rows = v.split(axis<0>, all ? 512 : 128);
                store(y.block({512}, {0}), (rows + reduce_max(rows, axis<1>)).merge(axis<0>));
            });
        });
        std::string said;
        try {
            on_targets(p, [](const Lowered&) {});
        } catch (const UsageError& e) {
            said = e.what();
        }
        return said;
    };
    CHECK(refused(true).find("inside a condition by warps something crosses warps") != std::string::npos);
    CHECK(refused(false).empty());
}

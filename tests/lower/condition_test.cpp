#include <algorithm>

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

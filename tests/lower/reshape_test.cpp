#include <cmath>

#include "tests/lower/run.hpp"

// Splits, merges and permutations look at the same elements; tiles in unlike layouts meet through shared memory.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("transposed and merged tiles go out in row-major order", "[lower]") {
    for (const TileShape& s : tile_shapes()) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim rows = k.dim("rows"), cols = k.dim("cols");
            const auto x = k.input<i16>("x", {rows, cols});
            const Index down = ceil_div(rows, s.rows), right = ceil_div(cols, s.cols);
            const auto y = k.output<i16>("y", {down, right, s.cols * s.rows});
            k.threads(s.threads);
            const auto [m, n] = k.grid(down, right);
            const auto v = load(x.block({s.rows, s.cols}, {m, n}), Value<i16, 0>(-7));
            store(y[m][n].window({s.cols * s.rows}, {0}), v.permute<1, 0>().merge(axis<0>));
        });
        on_targets(p, [&](const Lowered& kernel) {
            const std::int64_t rows = 37, cols = 50, down = ceil_div(rows, s.rows), right = ceil_div(cols, s.cols);
            auto x = numbers<std::int16_t>(rows * cols);
            std::vector<std::int16_t> y(static_cast<std::size_t>(down * right * s.rows * s.cols));
            kernel.run({37, 50}, x, y);
            std::size_t at = 0;
            for (std::int64_t m = 0; m < down; ++m)
                for (std::int64_t n = 0; n < right; ++n)
                    for (std::int64_t c = n * s.cols; c < (n + 1) * s.cols; ++c)
                        for (std::int64_t r = m * s.rows; r < (m + 1) * s.rows; ++r)
                            REQUIRE(y[at++] == (r < rows && c < cols ? x[static_cast<std::size_t>(r * cols + c)] : -7));
        });
    }
}

TEST_CASE("a tile meets another in a layout that its own extents cannot express", "[lower]") {
    // A row of 210 lies over threads as [105 · t2]; no border of [6, 35] falls between those digits.
    for (const TileShape& s : {TileShape{6, 35, 128}, {4, 96, 32}, {35, 6, 512}, {5, 128, 128}, {15, 7, 64}}) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const std::int64_t count = s.rows * s.cols;
        const Program p = record("kernel", [=](Kernel& k) {
            const auto z = k.input<f32>("z", {3, count});
            const auto x = k.input<f32>("x", {3, s.rows, s.cols});
            const auto y = k.output<f32>("y", {3, count});
            const auto largest = k.output<f32>("largest", {3});
            k.threads(s.threads);
            const auto [m] = k.grid(3);
            const auto w = load(z[m].window({count}, {0}));  // loaded first: its layout is the one that counts
            const auto v = load(x[m].window({s.rows, s.cols}, {0, 0})).merge(axis<0>);
            const auto turned = load(x[m].window({s.rows, s.cols}, {0, 0})).permute<1, 0>().merge(axis<0>);
            store(y[m].window({count}, {0}), w + v * 2.0f - turned);
            store(largest[m], reduce_max(v + w, axis<0>).squeeze(axis<0>));
        });
        on_targets(p, [&](const Lowered& kernel) {
            auto z = numbers<float>(3 * count), x = numbers<float>(3 * count, -20, 20);
            std::vector<float> y(x.size()), largest(3);
            kernel.run({}, z, x, y, largest);
            for (std::int64_t m = 0; m < 3; ++m) {
                float most = -INFINITY;
                for (std::int64_t i = 0; i < count; ++i) {
                    const auto at = static_cast<std::size_t>(m * count + i);
                    const auto turned = static_cast<std::size_t>(m * count + i % s.rows * s.cols + i / s.rows);
                    REQUIRE(y[at] == z[at] + 2 * x[at] - x[turned]);
                    most = std::max(most, x[at] + z[at]);
                }
                REQUIRE(largest[static_cast<std::size_t>(m)] == most);
            }
        });
    }
}

TEST_CASE("a variable takes tiles in other layouts than its own", "[lower]") {
    for (const TileShape& s : {TileShape{6, 35, 128}, {16, 16, 32}, {4, 96, 128}, {1, 8, 64}}) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim turns = k.dim("turns");
            const auto x = k.input<i32>("x", {turns, s.cols, s.rows});
            const auto y = k.output<i32>("y", {s.rows, s.cols});
            k.threads(s.threads);
            k.grid(1);
            auto sum = k.variable(coordinates({s.rows, s.cols}, axis<1>));
            auto last = k.variable(full({s.rows, s.cols}, Value<i32, 0>(5)));
            k.serial(turns, [&](Index i) {
                last = load(x[i].window({s.cols, s.rows}, {0, 0})).permute<1, 0>();
                sum = sum.get() + cast<i64>(last.get()) + i;
            });
            store(y.window({s.rows, s.cols}, {0, 0}), cast<i32>(sum.get()) * 100 + last.get());
        });
        on_targets(p, [&](const Lowered& kernel) {
            for (const std::int64_t turns : {0, 1, 3}) {
                auto x = numbers<std::int32_t>(3 * s.rows * s.cols);
                std::vector<std::int32_t> y(static_cast<std::size_t>(s.rows * s.cols));
                kernel.run({static_cast<std::uint64_t>(turns)}, x, y);
                for (std::int64_t r = 0; r < s.rows; ++r)
                    for (std::int64_t c = 0; c < s.cols; ++c) {
                        std::int64_t sum = c, last = 5;
                        for (std::int64_t i = 0; i < turns; ++i) {
                            last = x[static_cast<std::size_t>((i * s.cols + c) * s.rows + r)];
                            sum += last + i;
                        }
                        REQUIRE(y[static_cast<std::size_t>(r * s.cols + c)] == sum * 100 + last);
                    }
            }
        });
    }
}

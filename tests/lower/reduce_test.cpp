#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "tests/lower/run.hpp"

// Reductions along every axis, one after the other, of tiles seen otherwise, in every kind of type.

using namespace tessera;
using namespace tessera::test;

namespace {

/// A tile of the input as it was loaded: what lies outside is `fill`.
template <class T>
class Tile {
public:
    Tile(const std::vector<T>& x, std::int64_t rows, std::int64_t cols, const TileShape& s, std::int64_t m,
         std::int64_t n, T fill)
        : s_(s) {
        for (std::int64_t r = m * s.rows; r < (m + 1) * s.rows; ++r)
            for (std::int64_t c = n * s.cols; c < (n + 1) * s.cols; ++c)
                v_.push_back(r < rows && c < cols ? x[static_cast<std::size_t>(r * cols + c)] : fill);
    }
    T at(std::int64_t r, std::int64_t c) const { return v_[static_cast<std::size_t>(r * s_.cols + c)]; }
    template <class Fold>
    T row(std::int64_t r, Fold fold) const {
        T all = at(r, 0);
        for (std::int64_t c = 1; c < s_.cols; ++c) all = fold(all, at(r, c));
        return all;
    }
    template <class Fold>
    T column(std::int64_t c, Fold fold) const {
        T all = at(0, c);
        for (std::int64_t r = 1; r < s_.rows; ++r) all = fold(all, at(r, c));
        return all;
    }

private:
    TileShape s_;
    std::vector<T> v_;
};

constexpr std::int64_t rows = 37, cols = 61;

const auto add = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
const auto most = [](auto a, auto b) { return std::max(a, b); };
const auto least = [](auto a, auto b) { return std::min(a, b); };

template <class Each>
void each_block(const TileShape& s, Each&& each) {
    for (std::int64_t m = 0; m < ceil_div(rows, s.rows); ++m)
        for (std::int64_t n = 0; n < ceil_div(cols, s.cols); ++n) each(m, n, m * ceil_div(cols, s.cols) + n);
}

}  // namespace

TEST_CASE("sums and extremes along each axis, and along both in either order", "[lower]") {
    for (const TileShape& s : tile_shapes()) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim r = k.dim("rows"), c = k.dim("cols");
            const auto x = k.input<f32>("x", {r, c});
            const Index down = ceil_div(r, s.rows), right = ceil_div(c, s.cols);
            const auto by_row = k.output<f32>("by_row", {down, right, s.rows});
            const auto by_column = k.output<f32>("by_column", {down, right, s.cols});
            const auto all = k.output<f32>("all", {down, right, 3});
            k.threads(s.threads);
            const auto [m, n] = k.grid(down, right);
            const auto v = load(x.block({s.rows, s.cols}, {m, n}));
            store(by_row[m][n].window({s.rows}, {0}), reduce_sum(v, axis<1>).squeeze(axis<1>));
            store(by_column[m][n].window({s.cols}, {0}), reduce_max(v, axis<0>).squeeze(axis<0>));
            const auto number = [](const Value<f32, 2>& t) { return t.squeeze(axis<0>).squeeze(axis<0>); };
            store(all[m][n][0], number(reduce_sum(reduce_sum(v, axis<0>), axis<1>)));
            store(all[m][n][1], number(reduce_min(reduce_min(v.permute<1, 0>(), axis<0>), axis<1>)));
            store(all[m][n][2], reduce_max(v.permute<1, 0>().merge(axis<0>), axis<0>).squeeze(axis<0>));
        });
        on_targets(p, [&](const Lowered& kernel) {
            auto x = numbers<float>(rows * cols);
            const auto blocks = static_cast<std::size_t>(ceil_div(rows, s.rows) * ceil_div(cols, s.cols));
            std::vector<float> by_row(blocks * s.rows), by_column(blocks * s.cols), all(blocks * 3);
            kernel.run({rows, cols}, x, by_row, by_column, all);
            each_block(s, [&](std::int64_t m, std::int64_t n, std::int64_t block) {
                const Tile<float> tile(x, rows, cols, s, m, n, 0.0f);
                float sum = 0, low = INFINITY, high = -INFINITY;
                for (std::int64_t r = 0; r < s.rows; ++r) {
                    REQUIRE(by_row[static_cast<std::size_t>(block * s.rows + r)] == tile.row(r, add));
                    sum += tile.row(r, add);
                    low = std::min(low, tile.row(r, least));
                    high = std::max(high, tile.row(r, most));
                }
                for (std::int64_t c = 0; c < s.cols; ++c)
                    REQUIRE(by_column[static_cast<std::size_t>(block * s.cols + c)] == tile.column(c, most));
                REQUIRE(all[static_cast<std::size_t>(block * 3)] == sum);
                REQUIRE(all[static_cast<std::size_t>(block * 3 + 1)] == low);
                REQUIRE(all[static_cast<std::size_t>(block * 3 + 2)] == high);
            });
        });
    }
}

TEST_CASE("results of reductions along unlike axes meet in one expression", "[lower]") {
    for (const TileShape& s : tile_shapes()) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim r = k.dim("rows"), c = k.dim("cols");
            const auto x = k.input<i32>("x", {r, c});
            const auto y = k.output<i32>("y", {r, c});
            k.threads(s.threads);
            const auto [m, n] = k.grid(ceil_div(r, s.rows), ceil_div(c, s.cols));
            const auto v = load(x.block({s.rows, s.cols}, {m, n}));
            const auto down = reduce_max(v, axis<0>), along = reduce_sum(v, axis<1>);
            const auto turned = reduce_min(v.permute<1, 0>(), axis<0>).permute<1, 0>();
            const auto centred = v - along;
            store(y.block({s.rows, s.cols}, {m, n}), down * along + turned + reduce_sum(centred, axis<0>));
        });
        on_targets(p, [&](const Lowered& kernel) {
            auto x = numbers<std::int32_t>(rows * cols);
            std::vector<std::int32_t> y(x.size());
            kernel.run({rows, cols}, x, y);
            each_block(s, [&](std::int64_t m, std::int64_t n, std::int64_t) {
                const Tile<std::int32_t> tile(x, rows, cols, s, m, n, 0);
                for (std::int64_t r = 0; r < s.rows && m * s.rows + r < rows; ++r)
                    for (std::int64_t c = 0; c < s.cols && n * s.cols + c < cols; ++c) {
                        std::int32_t centred = 0;
                        for (std::int64_t q = 0; q < s.rows; ++q) centred += tile.at(q, c) - tile.row(q, add);
                        REQUIRE(y[static_cast<std::size_t>((m * s.rows + r) * cols + n * s.cols + c)] ==
                                tile.column(c, most) * tile.row(r, add) + tile.row(r, least) + centred);
                    }
            });
        });
    }
}

TEST_CASE("reductions of narrow and of wide types", "[lower]") {
    for (const TileShape& s : tile_shapes()) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim r = k.dim("rows"), c = k.dim("cols");
            const auto x = k.input<i8>("x", {r, c});
            const Index down = ceil_div(r, s.rows), right = ceil_div(c, s.cols);
            const auto a = k.output<i8>("a", {down, right, s.rows});
            const auto b = k.output<u16>("b", {down, right, s.cols});
            const auto w = k.output<i64>("w", {down, right, s.rows});
            const auto h = k.output<bf16>("h", {down, right, s.cols});
            k.threads(s.threads);
            const auto [m, n] = k.grid(down, right);
            const auto v = load(x.block({s.rows, s.cols}, {m, n}));
            store(a[m][n].window({s.rows}, {0}), reduce_max(v, axis<1>).squeeze(axis<1>));
            store(b[m][n].window({s.cols}, {0}), reduce_sum(cast<u16>(v), axis<0>).squeeze(axis<0>));
            store(w[m][n].window({s.rows}, {0}), reduce_sum(cast<i64>(v) << 40, axis<1>).squeeze(axis<1>));
            store(h[m][n].window({s.cols}, {0}), reduce_max(abs(cast<bf16>(v)), axis<0>).squeeze(axis<0>));
        });
        on_targets(p, [&](const Lowered& kernel) {
            auto x = numbers<std::int8_t>(rows * cols);
            const auto blocks = static_cast<std::size_t>(ceil_div(rows, s.rows) * ceil_div(cols, s.cols));
            std::vector<std::int8_t> a(blocks * s.rows);
            std::vector<std::uint16_t> b(blocks * s.cols), h(blocks * s.cols);
            std::vector<std::int64_t> w(blocks * s.rows);
            kernel.run({rows, cols}, x, a, b, w, h);
            each_block(s, [&](std::int64_t m, std::int64_t n, std::int64_t block) {
                const Tile<std::int8_t> tile(x, rows, cols, s, m, n, 0);
                for (std::int64_t r = 0; r < s.rows; ++r) {
                    std::int64_t sum = 0;
                    for (std::int64_t c = 0; c < s.cols; ++c) sum += tile.at(r, c) * (1ll << 40);
                    REQUIRE(a[static_cast<std::size_t>(block * s.rows + r)] == tile.row(r, most));
                    REQUIRE(w[static_cast<std::size_t>(block * s.rows + r)] == sum);
                }
                for (std::int64_t c = 0; c < s.cols; ++c) {
                    int sum = 0, magnitude = 0;
                    for (std::int64_t r = 0; r < s.rows; ++r) {
                        sum += tile.at(r, c);
                        magnitude = std::max(magnitude, std::abs(tile.at(r, c)));
                    }
                    REQUIRE(b[static_cast<std::size_t>(block * s.cols + c)] == static_cast<std::uint16_t>(sum));
                    const float expected = static_cast<float>(magnitude);
                    REQUIRE(h[static_cast<std::size_t>(block * s.cols + c)] ==
                            std::bit_cast<std::uint32_t>(expected) >> 16);
                }
            });
        });
    }
}

TEST_CASE("masks are reduced to any and all", "[lower]") {
    for (const TileShape& s : tile_shapes()) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim r = k.dim("rows"), c = k.dim("cols");
            const auto x = k.input<i32>("x", {r, c});
            const auto y = k.output<boolean>("y", {r, c});
            k.threads(s.threads);
            const auto [m, n] = k.grid(ceil_div(r, s.rows), ceil_div(c, s.cols));
            const auto large = load(x.block({s.rows, s.cols}, {m, n})) > 7;
            const auto any = reduce_max(large, axis<1>), all = reduce_min(~large, axis<0>);
            store(y.block({s.rows, s.cols}, {m, n}), any ^ all);
        });
        on_targets(p, [&](const Lowered& kernel) {
            auto x = numbers<std::int32_t>(rows * cols);
            std::vector<std::uint8_t> y(x.size(), 9);
            CHECK(kernel.text().find("|| __shfl") == std::string::npos);  // some lanes would not come to it
            kernel.run({rows, cols}, x, y);
            each_block(s, [&](std::int64_t m, std::int64_t n, std::int64_t) {
                const Tile<std::int32_t> tile(x, rows, cols, s, m, n, 0);
                for (std::int64_t r = 0; r < s.rows && m * s.rows + r < rows; ++r)
                    for (std::int64_t c = 0; c < s.cols && n * s.cols + c < cols; ++c) {
                        const bool any = tile.row(r, most) > 7, all = tile.column(c, most) <= 7;
                        REQUIRE(y[static_cast<std::size_t>((m * s.rows + r) * cols + n * s.cols + c)] == (any != all));
                    }
            });
        });
    }
}

TEST_CASE("sums of products are fma chains in a thread, of tiles of any extents", "[lower]") {
    const Program chain = record("chain", [](Kernel& k) {
        k.threads(32);
        k.grid(1);
        const auto a = k.input<f32>("a", {32, 16});
        const auto b = k.input<f32>("b", {16});
        const auto y = k.output<f32>("y", {32});
        const auto v = load(a.block({32, 16}, {0, 0}), {.per_thread = {1, 16}});
        store(y.block({32}, {0}), reduce_dot(v, load(b.block({16}, {0})).unsqueeze(axis<0>), axis<1>).squeeze(axis<1>));
    });
    on_targets(chain, [&](const Lowered& lowered) {
        std::vector<float> a, b, y(32), expected(32);
        for (int i = 0; i < 32 * 16; ++i) a.push_back(std::sin(static_cast<float>(i)));
        for (int i = 0; i < 16; ++i) b.push_back(std::cos(static_cast<float>(i)));
        for (std::size_t row = 0; row < 32; ++row)
            for (std::size_t i = 0; i < 16; ++i) expected[row] = std::fma(a[row * 16 + i], b[i], expected[row]);
        lowered.run({}, a, b, y);
        CHECK(y == expected);
        CHECK_THAT(lowered.text(), Catch::Contains("__fmaf_rn("));
    });
    for (const TileShape& s : tile_shapes()) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const Program p = record("kernel", [=](Kernel& k) {
            k.threads(s.threads);
            k.grid(1);
            const auto x = k.input<bf16>("x", {s.rows, s.cols});
            const auto by_row = k.output<f32>("by_row", {s.rows, 1}), all = k.output<f32>("all", {1, s.cols});
            const auto v = cast<f32>(load(x.block({s.rows, s.cols}, {0, 0})));
            store(by_row.block({s.rows, 1}, {0, 0}), reduce_dot(v, v + 1.0f, axis<1>));
            store(all.block({1, s.cols}, {0, 0}), reduce_dot(v, v, axis<0>));
        });
        const auto values = numbers<float>(s.rows * s.cols);
        std::vector<float> row_sums(static_cast<std::size_t>(s.rows)), columns(static_cast<std::size_t>(s.cols));
        std::vector<std::uint16_t> codes;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const float v = values[i];
            codes.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16));
            row_sums[i / columns.size()] += v * (v + 1);
            columns[i % columns.size()] += v * v;
        }
        on_targets(p, [&](const Lowered& lowered) {
            auto x = codes;
            std::vector<float> by_row(row_sums.size()), all(columns.size());
            lowered.run({}, x, by_row, all);
            CHECK(by_row == row_sums);
            CHECK(all == columns);
        });
    }
}

TEST_CASE("halves that lie packed beside the axis are folded two at a time", "[lower]") {
    const Program p = record("columns", [](Kernel& k) {
        const auto x = k.input<bf16>("x", {64, 48});
        const auto highest = k.output<bf16>("most", {1, 48});
        const auto farthest = k.output<bf16>("farthest", {1, 48});
        const auto count = k.output<f32>("count", {1, 48});
        k.threads(32);
        k.grid(1);
        const auto v = load(x.block({64, 48}, {0, 0}), {.per_thread = {1, 8}});
        store(highest.block({1, 48}, {0, 0}), reduce_max(v, axis<0>));
        store(farthest.block({1, 48}, {0, 0}), reduce_max(abs(v), axis<0>));
        store(count.block({1, 48}, {0, 0}), cast<f32>(reduce_sum(cast<bf16>(v > -2.0f), axis<0>)));
    });
    on_targets(p, [&](const Lowered& kernel) {
        const std::string text = kernel.text();
        for (const char* packed : {"max_bf16x2(", "max_magnitude_bf16x2(", "add_bf16x2(", "one_if_gt_bf16x2("})
            CHECK(text.find(packed) != std::string::npos);
        const auto numbers_of = numbers<std::int32_t>(64 * 48, -60, 60);
        std::vector<std::uint16_t> x(64 * 48), highest(48), farthest(48);
        const auto code = [](std::int32_t n) {  // exact: few bits
            return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(n)) >> 16);
        };
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = code(numbers_of[i]);
        std::vector<float> count(48);
        kernel.run({}, x, highest, farthest, count);
        for (std::size_t c = 0; c < 48; ++c) {
            std::int32_t largest = -1000, largest_magnitude = 0, above = 0;
            for (std::size_t r = 0; r < 64; ++r) {
                const std::int32_t n = numbers_of[r * 48 + c];
                largest = std::max(largest, n), largest_magnitude = std::max(largest_magnitude, std::abs(n));
                above += n > -2;
            }
            CHECK(highest[c] == code(largest));
            CHECK(farthest[c] == code(largest_magnitude));
            CHECK(count[c] == static_cast<float>(above));
        }
    });
}

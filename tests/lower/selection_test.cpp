#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/lower/run.hpp"

// Selection along an axis against a stable sort: ties, zeros of both signs, infinities and NaN, whole warps a line and
// parts of one, several elements a thread in either order.

using namespace tessera;
using namespace tessera::test;

namespace {

struct Line {
    std::int64_t rows, cols;  // of a block's tile
    int threads, lanes;
    std::int64_t side_by_side;
    int count;
};

const std::vector<Line>& lines() {
    static const std::vector<Line> all = {{4, 256, 128, 32, 1, 8}, {4, 256, 128, 32, 8, 8},  {1, 32, 32, 32, 1, 6},
                                          {2, 96, 64, 32, 1, 6},   {8, 64, 128, 32, 2, 32},  {16, 16, 128, 16, 1, 5},
                                          {8, 24, 64, 8, 1, 3},    {4, 512, 128, 32, 4, 10}, {1, 1024, 32, 32, 1, 2},
                                          {8, 4, 128, 1, 4, 4},    {8, 1, 32, 1, 1, 1},      {5, 48, 32, 16, 3, 7},
                                          {64, 12, 128, 2, 2, 1}};
    return all;
}

std::vector<float> hard_values(std::int64_t count) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = INFINITY;
    const float special[] = {nan, -nan, inf, -inf, -inf, 0.0f, -0.0f, 1e-45f, -1e-45f, 3e38f};
    auto values = numbers<float>(count, -20, 20);
    const auto choice = numbers<std::int32_t>(count, 0, 39);
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (choice[i] < 10) values[i] = special[choice[i]];
        if (choice[i] > 34) values[i] += 0.001f * static_cast<float>(choice[(i + 7) % choice.size()]);
    }
    std::fill_n(values.begin(), std::min<std::int64_t>(count, 12), nan);
    return values;
}

/// Larger first, NaN last, of equal ones the lower index.
template <class T>
std::vector<std::int32_t> order_of(const T* line, std::int64_t cols) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(cols));
    std::iota(order.begin(), order.end(), 0);
    const auto before = [&](std::int32_t a, std::int32_t b) {
        if (std::isnan(static_cast<double>(line[b]))) return !std::isnan(static_cast<double>(line[a]));
        return line[a] > line[b];
    };
    std::sort(order.begin(), order.end(),
              [&](std::int32_t a, std::int32_t b) { return before(a, b) || (!before(b, a) && a < b); });
    return order;
}

template <Element T>
Program selection(const Line& s) {
    return record("selection", [=](Kernel& k) {
        const Dim rows = k.dim("rows");
        const std::int64_t width = std::bit_ceil(static_cast<unsigned>(s.count));
        const auto x = k.input<T>("x", {rows, s.cols}, {.align = 4});
        const auto ids = k.output<i32>("ids", {rows, width});
        const auto chosen = k.output<boolean>("chosen", {rows, s.cols});
        const auto best = k.output<i32>("best", {rows, 1});
        k.threads(s.threads);
        const auto [m] = k.grid(ceil_div(rows, s.rows));
        const auto v = load(x.block({s.rows, s.cols}, {m, 0}), {.per_thread = {1, s.side_by_side}, .lanes = s.lanes});
        store(ids.block({s.rows, width}, {m, 0}), top_k(v, axis<1>, s.count));
        store(chosen.block({s.rows, s.cols}, {m, 0}), in_top_k(v, axis<1>, s.count));
        store(best.block({s.rows, 1}, {m, 0}), arg_max(v, axis<1>));
    });
}

template <class T>
void check(const Lowered& kernel, const Line& s, std::vector<T> x) {
    const auto rows = static_cast<std::int64_t>(x.size()) / s.cols;
    const std::int64_t width = std::bit_ceil(static_cast<unsigned>(s.count));
    std::vector<std::int32_t> ids(rows * width, 77), best(rows, 77);
    std::vector<std::uint8_t> chosen(rows * s.cols, 9);
    kernel.run({static_cast<std::uint64_t>(rows)}, x, ids, chosen, best);
    for (std::int64_t r = 0; r < rows; ++r) {
        const auto order = order_of(&x[static_cast<std::size_t>(r * s.cols)], s.cols);
        std::vector<std::uint8_t> expected(static_cast<std::size_t>(s.cols));
        for (int k = 0; k < s.count; ++k) expected[static_cast<std::size_t>(order[k])] = 1;
        for (std::int64_t k = 0; k < width; ++k) REQUIRE(ids[r * width + k] == (k < s.count ? order[k] : -1));
        for (std::int64_t c = 0; c < s.cols; ++c) REQUIRE(chosen[r * s.cols + c] == expected[c]);
        REQUIRE(best[r] == order[0]);
    }
}

}  // namespace

TEST_CASE("the first elements of a line, as indices, as a mask, and the very first", "[lower]") {
    for (const Line& s : lines()) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads << ", lanes " << s.lanes << ", count " << s.count);
        const std::int64_t rows = 2 * s.rows + 1;
        on_targets(selection<f32>(s), [&](const Lowered& kernel) { check(kernel, s, hard_values(rows * s.cols)); });
        on_targets(selection<i32>(s), [&](const Lowered& kernel) {
            auto x = numbers<std::int32_t>(rows * s.cols, -30, 30);
            x[0] = std::numeric_limits<std::int32_t>::min(), x.back() = std::numeric_limits<std::int32_t>::max();
            check(kernel, s, x);
        });
        on_targets(selection<u32>(s), [&](const Lowered& kernel) {
            auto x = numbers<std::uint32_t>(rows * s.cols, 0, 30);
            x[0] = std::numeric_limits<std::uint32_t>::max();
            check(kernel, s, x);
        });
    }
}

TEST_CASE("the smallest of a column, under other extents and transposed", "[lower]") {
    const Program p = record("columns", [](Kernel& k) {
        const auto x = k.input<i64>("x", {16, 64});
        const auto y = k.output<i64>("y", {4, 64});
        const auto z = k.output<i32>("z", {64, 2, 4});
        k.threads(64);
        k.grid(1);
        const auto v = load(x.block({16, 64}, {0, 0}), {.per_thread = {16, 1}});
        store(y.block({4, 64}, {0, 0}), smallest(v, axis<0>, 3));
        const auto turned = cast<i32>(v).permute<1, 0>().split(axis<1>, 8);
        store(z.window({64, 2, 4}, {0, 0, 0}), smallest(turned, axis<2>, 4));
    });
    on_targets(p, [&](const Lowered& kernel) {
        std::vector<std::int64_t> x(16 * 64), y(4 * 64);
        std::vector<std::int32_t> z(64 * 8);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int64_t>((i * 389) % 1024) - 500;
        kernel.run({}, x, y, z);
        for (std::size_t c = 0; c < 64; ++c) {
            std::vector<std::int64_t> column;
            for (std::size_t r = 0; r < 16; ++r) column.push_back(x[r * 64 + c]);
            for (std::size_t half = 0; half < 2; ++half) {
                std::vector<std::int64_t> part(column.begin() + 8 * half, column.begin() + 8 * half + 8);
                std::sort(part.begin(), part.end());
                for (std::size_t i = 0; i < 4; ++i) REQUIRE(z[c * 8 + half * 4 + i] == part[i]);
            }
            std::sort(column.begin(), column.end());
            for (std::size_t i = 0; i < 3; ++i) REQUIRE(y[i * 64 + c] == column[i]);
            REQUIRE(y[3 * 64 + c] == std::numeric_limits<std::int64_t>::max());
        }
    });
}

TEST_CASE("a warp that holds a line reduces it by one instruction", "[lower]") {
    const Program p = record("warp", [](Kernel& k) {
        const Dim rows = k.dim("rows");
        const auto x = k.input<i32>("x", {rows, 64});
        const auto y = k.output<i32>("y", {rows, 4});
        k.threads(64);
        const auto [m] = k.grid(ceil_div(rows, 2));
        const auto v = load(x.block({2, 64}, {m, 0}), {.per_thread = {1, 2}, .lanes = 32});
        store(y.window({2, 1}, {m * 2, 0}), reduce_sum(v, axis<1>));
        store(y.window({2, 1}, {m * 2, 1}), reduce_max(v, axis<1>));
        store(y.window({2, 1}, {m * 2, 2}), reduce_min(v, axis<1>));
        store(y.window({2, 1}, {m * 2, 3}), cast<i32>(reduce_max(v > 8, axis<1>)));
    });
    on_targets(p, [&](const Lowered& kernel) {
        CHECK(kernel.text().find("__shfl") == std::string::npos);
        for (const char* name : {"__reduce_add_sync", "__reduce_max_sync", "__reduce_min_sync", "__any_sync"})
            CHECK(kernel.text().find(name) != std::string::npos);
        auto x = numbers<std::int32_t>(3 * 64);
        std::vector<std::int32_t> y(3 * 4);
        kernel.run({3}, x, y);
        for (std::size_t r = 0; r < 3; ++r) {
            const auto first = x.begin() + static_cast<std::ptrdiff_t>(r * 64), end = first + 64;
            CHECK(y[r * 4] == std::accumulate(first, end, 0));
            CHECK(y[r * 4 + 1] == *std::max_element(first, end));
            CHECK(y[r * 4 + 2] == *std::min_element(first, end));
            CHECK(y[r * 4 + 3] == (*std::max_element(first, end) > 8));
        }
    });
}

TEST_CASE("a selection that cannot be is refused", "[lower]") {
    const auto lowered = [](std::int64_t cols, int count) {
        const Program p = record("wide", [=](Kernel& k) {
            const auto x = k.input<f32>("x", {1, cols});
            const auto y = k.output<i32>("y", {1, 8});
            k.grid(1);
            store(y.block({1, 8}, {0, 0}), top_k(load(x.block({1, cols}, {0, 0})), axis<1>, count));
        });
        lower::lower(p.ir(), Target::h200());
    };
    CHECK_THROWS_WITH(lowered(1024, 8), Catch::Contains("lie in several warps") && Catch::Contains("lanes = 32"));
    CHECK_THROWS_WITH(lowered(8, 9), Catch::Contains("a selection of 9") && Catch::Contains("from 1 to 8"));
    CHECK_THROWS_WITH(lowered(64, 33), Catch::Contains("from 1 to 32"));
}

TEST_CASE("equal elements of a warp find each other", "[lower]") {
    const Program p = record("equals", [](Kernel& k) {
        const Dim rows = k.dim("rows");
        const auto x = k.input<i64>("x", {rows, 32}, {.align = 8});
        const auto y = k.output<u32>("y", {rows, 32});
        const auto earlier = k.output<u32>("earlier", {rows, 32});
        k.threads(64);
        const auto [m] = k.grid(ceil_div(rows, 4));
        const auto v = load(x.block({4, 32}, {m, 0}), {.per_thread = {1, 1}, .lanes = 32});
        const auto equal = match(v, axis<1>);
        const auto lane = cast<u32>(coordinates({4, 32}, axis<1>));
        store(y.block({4, 32}, {m, 0}), equal);
        store(earlier.block({4, 32}, {m, 0}), popcount(equal & ((Value<u32, 0>(1u) << lane) - 1u)));
    });
    on_targets(p, [&](const Lowered& kernel) {
        auto x = numbers<std::int64_t>(7 * 32, -3, 3);
        x[5] += std::int64_t{1} << 32;  // equal in its low half only
        std::vector<std::uint32_t> y(x.size()), earlier(x.size());
        kernel.run({7}, x, y, earlier);
        for (std::size_t i = 0; i < x.size(); ++i) {
            std::uint32_t bits = 0, before = 0;
            for (std::size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
                bits |= std::uint32_t{x[j] == x[i]} << (j % 32);
                before += j < i && x[j] == x[i];
            }
            REQUIRE(y[i] == bits);
            REQUIRE(earlier[i] == before);
        }
    });
    const Program wide = record("wide", [](Kernel& k) {
        const auto x = k.input<i32>("x", {8, 32});
        const auto y = k.output<u32>("y", {8, 32});
        k.grid(1);
        store(y.block({8, 32}, {0, 0}), match(load(x.block({8, 32}, {0, 0})), axis<1>));
    });
    CHECK_THROWS_WITH(lower::lower(wide.ir(), Target::h200()), Catch::Contains("the lanes of a warp"));
}

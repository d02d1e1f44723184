#include <algorithm>
#include <limits>

#include "tests/lower/run.hpp"

// k.each_warp: numbers, counts and conditions that differ from warp to warp, and all that crosses lanes inside of one,
// against plain loops.

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr float lowest = std::numeric_limits<float>::lowest();

struct Rows {
    std::vector<std::int32_t> starts;
    std::vector<float> values;
    std::size_t count() const { return starts.size() - 1; }
};
Rows ragged(std::size_t count) {
    const std::int32_t lengths[] = {0, 1, 31, 32, 33, 1000, 63, 64, 65, 2, 0};
    Rows rows{{0}, {}};
    for (std::size_t r = 0; r < count; ++r) rows.starts.push_back(rows.starts.back() + lengths[r % std::size(lengths)]);
    rows.values = numbers<float>(std::max(rows.starts.back(), 1));
    return rows;
}

/// Sum and largest of each ragged row, `chunk` elements at a time, `per_block` rows a block.
Program ragged_sums(int threads, std::int64_t per_block, std::int64_t chunk) {
    return record("kernel", [=](Kernel& k) {
        const Dim rows = k.dim("rows"), elements = k.dim("elements");
        const auto starts = k.input<i32>("starts", {rows + 1}, {.align = 4});
        const auto values = k.input<f32>("values", {elements}, {.align = 4});
        const auto sums = k.output<f32>("sums", {rows}, {.align = 4});
        const auto most = k.output<f32>("most", {rows}, {.align = 4});
        k.threads(threads);
        const auto [block] = k.grid(ceil_div(rows, per_block));
        k.each_warp(per_block, [&](Index i) {
            const Index row = block * per_block + i;
            k.when(row < rows, [&] {
                const Index first = cast<i64>(load(starts[row])), last = cast<i64>(load(starts[row + 1]));
                auto sum = k.variable(full({chunk}, Value<f32, 0>(0.0f)));
                auto top = k.variable(full({chunk}, Value<f32, 0>(lowest)));
                k.serial(ceil_div(last - first, chunk), [&](Index j) {
                    const Index at = first + j * chunk;
                    const auto inside = coordinates({chunk}, axis<0>) < last - at;
                    const auto v = load(values.window({chunk}, {at}));
                    sum = sum.get() + select(inside, v, 0.0f);
                    top = max(top.get(), select(inside, v, lowest));
                });
                store(sums[row], reduce_sum(sum.get(), axis<0>).squeeze(axis<0>));
                store(most[row], reduce_max(top.get(), axis<0>).squeeze(axis<0>));
            });
        });
    });
}

}  // namespace

TEST_CASE("ragged rows: every warp makes as many turns as its row is long", "[lower][each_warp]") {
    for (const int threads : {32, 96, 128, 1024})
        for (const std::int64_t per_block : {1, 5, 32})
            on_targets(ragged_sums(threads, per_block, per_block == 5 ? 64 : 256), [&](const Lowered& kernel) {
                INFO(threads << " threads, " << per_block << " rows a block");
                CHECK(kernel.count<ir::Barrier>() == 0);
                for (const std::size_t count : {1u, 7u, 40u}) {
                    Rows r = ragged(count);
                    std::vector<float> sums(count, -1.0f), most(count, -1.0f), expected_sums, expected_most;
                    for (std::size_t row = 0; row < count; ++row) {
                        float sum = 0.0f, top = lowest;
                        for (std::int32_t e = r.starts[row]; e < r.starts[row + 1]; ++e)
                            sum += r.values[static_cast<std::size_t>(e)],
                                top = std::max(top, r.values[static_cast<std::size_t>(e)]);
                        expected_sums.push_back(sum), expected_most.push_back(top);
                    }
                    kernel.run({count, r.values.size()}, r.starts, r.values, sums, most);
                    CHECK(sums == expected_sums);
                    CHECK(most == expected_most);
                }
            });
}

TEST_CASE("each warp decides by what it has loaded or reduced", "[lower][each_warp]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {13, 100});
        const auto y = k.output<f32>("y", {13, 100});
        k.threads(96);
        k.grid(1);
        k.each_warp(13, [&](Index i) {
            const auto v = load(x[i].window({100}, {0}));
            k.when(any(v > 8.0f), [&] { store(y[i].window({100}, {0}), v * 2.0f); }).otherwise([&] {
                k.when(all(v < 3.0f) | (reduce_sum(v, axis<0>).squeeze(axis<0>) > 40.0f), [&] {
                     store(y[i].window({100}, {0}), v + 1.0f);
                 }).otherwise([&] { store(y[i].window({100}, {0}), v); });
            });
        });
    });
    on_targets(program, [](const Lowered& kernel) {
        auto x = numbers<float>(1300);
        for (std::size_t r = 0; r < 13; ++r)
            for (std::size_t c = 0; c < 100; ++c) {
                if (r % 4 == 1) x[r * 100 + c] = std::min(x[r * 100 + c], 2.0f);
                if (r % 4 == 2) x[r * 100 + c] = c == 99 ? 8.0f : 0.5f;
                if (r % 4 == 3) x[r * 100 + c] = c % 50 == 7 ? 4.0f : -1.0f;
            }
        std::vector<float> y(1300), expected;
        int ways[3] = {};
        for (std::size_t r = 0; r < 13; ++r) {
            const auto row = x.begin() + static_cast<std::ptrdiff_t>(r * 100);
            float sum = 0.0f;
            for (int c = 0; c < 100; ++c) sum += row[c];
            const bool big = std::any_of(row, row + 100, [](float v) { return v > 8.0f; });
            const bool small = std::all_of(row, row + 100, [](float v) { return v < 3.0f; });
            const int way = big ? 0 : small || sum > 40.0f ? 1 : 2;
            ++ways[way];
            for (int c = 0; c < 100; ++c)
                expected.push_back(way == 0 ? row[c] * 2.0f : way == 1 ? row[c] + 1.0f : row[c]);
        }
        REQUIRE((ways[0] > 0 && ways[1] > 0 && ways[2] > 0));
        kernel.run({}, x, y);
        CHECK(y == expected);
    });
}

TEST_CASE("counts that a warp has reduced, of 32 and of 64 bits", "[lower][each_warp]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto x = k.input<i32>("x", {9, 40});
        const auto y = k.output<i32>("y", {9, 2}, {.align = 4});
        k.threads(64);
        k.grid(1);
        k.each_warp(9, [&](Index i) {
            const auto v = load(x[i].window({40}, {0}));
            auto narrow = k.variable(Value<i32, 0>(0)), wide = k.variable(Value<i32, 0>(0));
            k.serial(cast<i64>(reduce_max(v, axis<0>).squeeze(axis<0>)),
                     [&](Index j) { narrow = narrow.get() + cast<i32>(j) + 1; });
            k.serial(reduce_sum(cast<i64>(v), axis<0>).squeeze(axis<0>), [&](Index) { wide = wide.get() + 1; });
            store(y[i][0], narrow.get());
            store(y[i][1], wide.get());
        });
    });
    on_targets(program, [](const Lowered& kernel) {
        auto x = numbers<std::int32_t>(360, 0, 5);
        for (std::size_t c = 0; c < 40; ++c) x[80 + c] = 0, x[120 + c] = c == 33 ? 9 : 0;
        std::vector<std::int32_t> y(18, -1), expected;
        for (std::size_t r = 0; r < 9; ++r) {
            std::int32_t most = 0, sum = 0;
            for (std::size_t c = 0; c < 40; ++c) most = std::max(most, x[r * 40 + c]), sum += x[r * 40 + c];
            expected.push_back(most * (most + 1) / 2);
            expected.push_back(sum);
        }
        kernel.run({}, x, y);
        CHECK(y == expected);
    });
}

TEST_CASE("selection, running sums, matches and gathers of a warp by itself", "[lower][each_warp]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {11, 64});
        const auto ids = k.output<i32>("ids", {11, 4}, {.align = 4});
        const auto sums = k.output<i32>("sums", {11, 64});
        const auto alike = k.output<u32>("alike", {11, 32});
        const auto picked = k.output<f32>("picked", {11, 4}, {.align = 4});
        k.threads(128);
        k.grid(1);
        k.each_warp(11, [&](Index i) {
            const auto v = load(x[i].window({64}, {0}));
            const LoadOptions lanes{.per_thread = {1}, .lanes = 32};
            const auto best = top_k(v, axis<0>, 4);
            store(ids[i].window({4}, {0}), best);
            store(sums[i].window({64}, {0}), inclusive_sum(cast<i32>(v), axis<0>));
            store(alike[i].window({32}, {0}), match(cast<i32>(load(x[i].window({32}, {32}), lanes)) / 4, axis<0>));
            store(picked[i].window({4}, {0}), load(x[i].window({4}, {best})));
        });
    });
    on_targets(program, [](const Lowered& kernel) {
        auto x = numbers<float>(11 * 64);
        std::vector<std::int32_t> ids(44), sums(11 * 64), expected_ids, expected_sums;
        std::vector<std::uint32_t> alike(11 * 32), expected_alike;
        std::vector<float> picked(44), expected_picked;
        for (std::size_t r = 0; r < 11; ++r) {
            std::vector<std::int32_t> order(64);
            for (std::int32_t c = 0; c < 64; ++c) order[static_cast<std::size_t>(c)] = c;
            const float* row = x.data() + r * 64;
            std::sort(order.begin(), order.end(),
                      [&](auto a, auto b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
            std::int32_t sum = 0;
            for (int c = 0; c < 4; ++c) {
                expected_ids.push_back(order[static_cast<std::size_t>(c)]);
                expected_picked.push_back(row[order[static_cast<std::size_t>(c)]]);
            }
            for (int c = 0; c < 64; ++c) expected_sums.push_back(sum += static_cast<std::int32_t>(row[c]));
            for (int c = 32; c < 64; ++c) {
                std::uint32_t bits = 0;
                for (int d = 32; d < 64; ++d)
                    bits |= (static_cast<int>(row[c]) / 4 == static_cast<int>(row[d]) / 4 ? 1u : 0u) << (d - 32);
                expected_alike.push_back(bits);
            }
        }
        kernel.run({}, x, ids, sums, alike, picked);
        CHECK(ids == expected_ids);
        CHECK(sums == expected_sums);
        CHECK(alike == expected_alike);
        CHECK(picked == expected_picked);
    });
}

TEST_CASE("a change of layout goes through memory of the warp's own", "[lower][each_warp]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {7, 16, 32});
        const auto y = k.output<f32>("y", {7, 32, 16});
        k.threads(96);
        k.grid(1);
        k.each_warp(7, [&](Index i) {
            const auto v = load(x[i].window({16, 32}, {0, 0}), {.per_thread = {4, 1}});
            const auto w = load(x[i].window({16, 32}, {0, 0}), {.per_thread = {1, 4}});
            store(y[i].window({32, 16}, {0, 0}), (v + w * 2.0f).permute<1, 0>());
        });
    });
    on_targets(program, [](const Lowered& kernel) {
        REQUIRE(!kernel.program().shared.empty());
        for (const ir::SharedTile& tile : kernel.program().shared) CHECK(tile.shape[0] == 3);  // one for each warp
        CHECK(kernel.count<ir::Barrier>() >= 2);
        CHECK(kernel.text().find("__syncthreads") == std::string::npos);
        auto x = numbers<float>(7 * 512);
        std::vector<float> y(7 * 512), expected(7 * 512);
        for (std::size_t i = 0; i < 7; ++i)
            for (std::size_t r = 0; r < 16; ++r)
                for (std::size_t c = 0; c < 32; ++c) expected[i * 512 + c * 16 + r] = 3.0f * x[i * 512 + r * 32 + c];
        kernel.run({}, x, y);
        CHECK(y == expected);
    });
}

TEST_CASE("products on tensor cores by single warps, of as many tiles as each has", "[lower][each_warp]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto counts = k.input<i32>("counts", {6}, {.align = 4});
        const auto a = k.input<tf32>("a", {6, 16, 64});
        const auto b = k.input<tf32>("b", {8, 64});
        const auto c = k.output<f32>("c", {6, 16, 8});
        k.threads(64);
        k.grid(1);
        k.each_warp(6, [&](Index i) {
            auto sum = k.variable(full({16, 8}, Value<f32, 0>(0.0f)));
            k.serial(cast<i64>(load(counts[i])), [&](Index j) {
                sum = mma(load(a[i].block({16, 32}, {0, j})), load(b.block({8, 32}, {0, j})), sum.get());
            });
            store(c[i].window({16, 8}, {0, 0}), sum.get());
        });
    });
    on_targets(program, [](const Lowered& kernel) {
        std::vector<std::int32_t> counts = {0, 1, 2, 2, 0, 1};
        auto a = numbers<float>(6 * 1024, -4, 4), b = numbers<float>(512, -3, 3);
        std::vector<float> c(6 * 128, -1.0f), expected;
        for (std::size_t i = 0; i < 6; ++i)
            for (std::size_t m = 0; m < 16; ++m)
                for (std::size_t n = 0; n < 8; ++n) {
                    float sum = 0.0f;
                    for (std::size_t d = 0; d < 32 * static_cast<std::size_t>(counts[i]); ++d)
                        sum += a[i * 1024 + m * 64 + d] * b[n * 64 + d];
                    expected.push_back(sum);
                }
        kernel.run({}, counts, a, b, c);
        CHECK(c == expected);
    });
}

TEST_CASE("the count may come from data, and numbers from outside", "[lower][each_warp]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto count = k.input<i32>("count", {1}, {.align = 4});
        const auto x = k.input<f32>("x", {40, 32});
        const auto y = k.inout<f32>("y", {40, 32});
        k.threads(128);
        k.grid(1);
        const auto all_rows = load(x.window({40, 32}, {0, 0}));
        const auto mean = reduce_sum(all_rows.merge(axis<0>), axis<0>).squeeze(axis<0>) * 0.125f;
        auto factor = k.variable(Value<f32, 0>(1.0f));
        k.serial(2, [&](Index) { factor = factor.get() * 2.0f; });
        k.each_warp(cast<i64>(load(count[0])), [&](Index i) {
            store(y[i].window({32}, {0}), load(x[i].window({32}, {0})) * factor.get() + mean);
        });
    });
    on_targets(program, [](const Lowered& kernel) {
        for (const std::int32_t n : {0, 1, 3, 4, 5, 40}) {
            std::vector<std::int32_t> count = {n};
            auto x = numbers<float>(1280);
            std::vector<float> y(1280, 7.0f), expected = y;
            float mean = 0.0f;
            for (float v : x) mean += v;
            mean *= 0.125f;
            for (std::size_t e = 0; e < static_cast<std::size_t>(n) * 32; ++e) expected[e] = x[e] * 4.0f + mean;
            kernel.run({}, count, x, y);
            CHECK(y == expected);
        }
    });
}

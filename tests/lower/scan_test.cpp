#include "tests/lower/run.hpp"

// Running sums along either axis against plain loops: whole lines in a thread, over lanes, over warps, in turns.

using namespace tessera;
using namespace tessera::test;

namespace {

enum class Source { loaded, across, shared_transposed };

/// Sums of x, given how it lies: as its load, with 4 elements side by side along the rows, or after a permutation.
template <Element T, int N>
Program sums(const TileShape& s, Source source) {
    return record("sums", [=](Kernel& k) {
        const Dim rows = k.dim("rows");
        const auto x = k.input<T>("x", {rows, s.cols}, {.align = 8});
        const auto inclusive = k.output<T>("inclusive", {rows, s.cols}, {.align = 8});
        const auto exclusive = k.output<T>("exclusive", {rows, s.cols}, {.align = 8});
        k.threads(s.threads);
        const auto [m] = k.grid(ceil_div(rows, s.rows));
        const auto piece = x.block({s.rows, s.cols}, {m, 0});
        const LoadOptions tall{.per_thread = {s.rows % 4 == 0 ? 4 : 1, 1}};
        const auto v = source == Source::across ? load(piece, tall) : load(piece);
        const auto put = [&](const auto& to, const auto& value) { store(to.block({s.rows, s.cols}, {m, 0}), value); };
        if (source == Source::shared_transposed) {
            const auto turned = v.template permute<1, 0>();
            put(inclusive, inclusive_sum(turned, axis<1 - N>).template permute<1, 0>());
            put(exclusive, exclusive_sum(turned, axis<1 - N>).template permute<1, 0>());
        } else {
            put(inclusive, inclusive_sum(v + v, axis<N>));
            put(exclusive, exclusive_sum(v, axis<N>));
        }
    });
}

template <class T, int N>
void check(const Lowered& kernel, const TileShape& s, Source source, std::int64_t rows) {
    auto x = numbers<T>(rows * s.cols, 0, 9);
    std::vector<T> inclusive(x.size(), T(77)), exclusive(x.size(), T(77));
    kernel.run({static_cast<std::uint64_t>(rows)}, x, inclusive, exclusive);
    const T times = source == Source::shared_transposed ? 1 : 2;
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < s.cols; ++c) {
            T before = 0;  // in the block's tile
            for (std::int64_t i = N == 0 ? r / s.rows * s.rows : 0; i < (N == 0 ? r : c); ++i)
                before += N == 0 ? x[i * s.cols + c] : x[r * s.cols + i];
            REQUIRE(exclusive[r * s.cols + c] == before);
            REQUIRE(inclusive[r * s.cols + c] == times * (before + x[r * s.cols + c]));
        }
}

template <Element T, class Number, int N>
void check_all() {
    for (const TileShape& s : tile_shapes())
        for (const Source source : {Source::loaded, Source::across, Source::shared_transposed}) {
            INFO(s.rows << " x " << s.cols << " over " << s.threads << " threads, source " << static_cast<int>(source));
            on_targets(sums<T, N>(s, source), [&](const Lowered& kernel) {
                for (const std::int64_t rows : {s.rows, s.rows + (s.rows + 1) / 2})
                    check<Number, N>(kernel, s, source, rows);
            });
        }
}

}  // namespace

TEST_CASE("running sums of whole numbers along rows and columns", "[lower]") {
    check_all<i32, std::int32_t, 1>();
    check_all<u64, std::uint64_t, 0>();
}

TEST_CASE("running sums of f32 along rows and columns", "[lower]") {
    check_all<f32, float, 0>();
    check_all<f32, float, 1>();
}

TEST_CASE("a line in one thread needs no shuffle, one in a warp no barrier", "[lower]") {
    const auto barriers = [](std::int64_t each, int lanes) {
        const Program p = record("line", [=](Kernel& k) {
            const auto x = k.input<i32>("x", {8, 128});
            const auto y = k.output<i32>("y", {8, 128});
            k.threads(256);
            k.grid(1);
            const auto v = load(x.window({8, 128}, {0, 0}), {.per_thread = {1, each}, .lanes = lanes});
            store(y.window({8, 128}, {0, 0}), inclusive_sum(v, axis<1>));
        });
        const Lowered kernel(p, Target::h200());
        CHECK((kernel.text().find("__shfl") == std::string::npos) == (lanes == 1));
        return kernel.count<ir::Barrier>();
    };
    CHECK(barriers(4, 32) == 0);
    CHECK(barriers(1, 32) == 0);
    CHECK(barriers(1, 64) == 1);  // the totals of two warps
}

TEST_CASE("a running sum of f32 is added in the layout's order", "[lower]") {
    // Four in a thread, then the lanes: 1 + 1e8 + … loses what another order would keep.
    const Program p = record("order", [](Kernel& k) {
        const auto x = k.input<f32>("x", {128});
        const auto y = k.output<f32>("y", {128});
        k.threads(32);
        k.grid(1);
        store(y.window({128}, {0}), inclusive_sum(load(x.window({128}, {0}), {.per_thread = {4}}), axis<0>));
    });
    on_targets(p, [](const Lowered& kernel) {
        std::vector<float> x(128), y(128), expected(128);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? 1e8f : i % 3 == 1 ? 1.0f : -1e8f;
        std::vector<float> before(32), total(32);
        for (std::size_t lane = 0; lane < 32; ++lane) {
            float sum = x[4 * lane];
            for (std::size_t i = 1; i < 4; ++i) sum = sum + x[4 * lane + i];
            total[lane] = sum;
        }
        for (std::size_t k = 1; k < 32; k *= 2) {
            const std::vector<float> sums = total;
            for (std::size_t lane = 0; lane < 32; ++lane) {
                const float other = sums[lane ^ k];
                if (lane & k) before[lane] = other + before[lane];
                total[lane] = sums[lane] + other;
            }
        }
        for (std::size_t lane = 0; lane < 32; ++lane) {
            float sum = x[4 * lane];
            for (std::size_t i = 0; i < 4; ++i) {
                if (i > 0) sum = sum + x[4 * lane + i];
                expected[4 * lane + i] = before[lane] + sum;
            }
        }
        kernel.run({}, x, y);
        CHECK(y == expected);
    });
}

#include "tests/lower/run.hpp"

// Tiles of every size, in every element type, on blocks of every size: each element arrives once, edges are cut.

using namespace tessera;
using namespace tessera::test;

namespace {

template <Element T>
Program copy(const TileShape& s, std::int64_t multiple) {
    return record("copy", [=](Kernel& k) {
        const Dim rows = k.dim("rows"), cols = k.dim("cols", multiple_of(multiple));
        const auto x = k.input<T>("x", {rows, cols});
        const auto y = k.output<T>("y", {rows, cols});
        k.threads(s.threads);
        const auto [m, n] = k.grid(ceil_div(rows, s.rows), ceil_div(cols, s.cols));
        store(y.block({s.rows, s.cols}, {m, n}), load(x.block({s.rows, s.cols}, {m, n})));
    });
}

template <Element T, class Storage>
void check_copy() {
    for (const TileShape& s : tile_shapes())
        for (const std::int64_t multiple : {1, 16}) {
            INFO(name_of(T) << " " << s.rows << " x " << s.cols << " over " << s.threads << ", columns a multiple of "
                            << multiple);
            const std::int64_t rows = 37, cols = 48 + (multiple == 1 ? 13 : 0);
            on_targets(copy<T>(s, multiple), [&](const Lowered& kernel) {
                auto x = numbers<Storage>(rows * cols, 0, 1);
                std::vector<Storage> y(x.size(), Storage{99});
                kernel.run({static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols)}, x, y);
                CHECK(x == y);
            });
        }
}

}  // namespace

TEST_CASE("copies of tiles of any size", "[lower]") {
    check_copy<f64, std::uint64_t>();
    check_copy<f32, std::uint32_t>();
    check_copy<bf16, std::uint16_t>();
    check_copy<f16, std::uint16_t>();
    check_copy<e4m3, std::uint8_t>();
    check_copy<boolean, std::uint8_t>();
    check_copy<i64, std::int64_t>();
    check_copy<u16, std::uint16_t>();
}

TEST_CASE("extents without factors of 2 still spread over threads where shorter vectors allow it", "[lower]") {
    // 40 columns are 5 vectors of 8 elements, which no two threads can share evenly.
    const Program p = copy<u8>({33, 40, 128}, 16);
    on_targets(p, [&](const Lowered& kernel) {
        int words = 0;
        for (const ir::RegisterArray& a : kernel.program().arrays) words = std::max(words, a.words);
        CHECK(words <= 165);
    });
}

TEST_CASE("a tile that leaves a thread too much is refused on its line", "[lower]") {
    const Program p = copy<f32>({128, 1024, 32}, 1);
    CHECK_THROWS_WITH(lower::lower(p.ir(), Target::h200()),
                      Catch::Contains("tiles_test.cpp:") && Catch::Contains("more than 512"));
}

TEST_CASE("several outputs from one tile, in several types", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<i32>("x", {n});
        const auto a = k.output<i8>("a", {n});
        const auto b = k.output<i64>("b", {n});
        const auto c = k.output<boolean>("c", {n});
        const auto d = k.output<u16>("d", {n});
        const auto [m] = k.grid(ceil_div(n, 96));
        const auto v = load(x.block({96}, {m}));
        store(a.block({96}, {m}), cast<i8>(v));
        store(b.block({96}, {m}), cast<i64>(v) * 1'000'000'007);
        store(c.block({96}, {m}), (v > 2) ^ (v % 2 == 0));
        store(d.block({96}, {m}), cast<u16>(abs(v)) << 3);
    });
    on_targets(p, [](const Lowered& kernel) {
        auto x = numbers<std::int32_t>(250);
        std::vector<std::int8_t> a(250);
        std::vector<std::int64_t> b(250);
        std::vector<std::uint8_t> c(250);
        std::vector<std::uint16_t> d(250);
        kernel.run({250}, x, a, b, c, d);
        for (std::size_t i = 0; i < x.size(); ++i) {
            REQUIRE(a[i] == x[i]);
            REQUIRE(b[i] == x[i] * 1'000'000'007ll);
            REQUIRE(c[i] == ((x[i] > 2) != (x[i] % 2 == 0)));
            REQUIRE(d[i] == std::abs(x[i]) * 8);
        }
    });
}

TEST_CASE("coordinates, numbers and scalar masks", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim rows = k.dim("rows"), cols = k.dim("cols");
        const auto limit = k.scalar<i64>("limit");
        const auto y = k.output<i64>("y", {rows, cols});
        const auto [m, n] = k.grid(ceil_div(rows, 5), ceil_div(cols, 24));
        const auto r = coordinates({5, 24}, axis<0>) + m * 5, c = coordinates({5, 24}, axis<1>) + n * 24;
        const auto inner = clamp(r * c - 3, 2, 77);
        store(y.block({5, 24}, {m, n}),
              select(m > n, select(limit == 7, inner, r), select(5 < c, c, full({5, 24}, limit))));
    });
    on_targets(p, [](const Lowered& kernel) {
        for (const std::int64_t limit : {7, 8}) {
            std::vector<std::int64_t> y(23 * 50, -1);
            kernel.run({23, 50, static_cast<std::uint64_t>(limit)}, y);
            for (std::int64_t r = 0; r < 23; ++r)
                for (std::int64_t c = 0; c < 50; ++c) {
                    const std::int64_t inner = std::max<std::int64_t>(std::min<std::int64_t>(r * c - 3, 77), 2);
                    const std::int64_t expected = r / 5 > c / 24 ? (limit == 7 ? inner : r) : 5 < c ? c : limit;
                    REQUIRE(y[static_cast<std::size_t>(r * 50 + c)] == expected);
                }
        }
    });
}

TEST_CASE("loads with unlike distributions keep theirs and meet by a conversion", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n", multiple_of(16));
        const auto x = k.input<u8>("x", {n, n});
        const auto y = k.output<u8>("y", {n, n});
        k.threads(64);
        const auto [m, l] = k.grid(ceil_div(n, 16), ceil_div(n, 16));
        const auto v = load(x.block({16, 16}, {m, l}), {.per_thread = {4, 4}});
        const auto w = load(x.block({16, 16}, {l, m}), {.per_thread = {1, 16}});
        store(y.block({16, 16}, {m, l}), v * Value<u8, 0>(3) + w.permute<1, 0>());
    });
    on_targets(p, [](const Lowered& kernel) {
        int rows = 0;
        for (const ir::RegisterArray& a : kernel.program().arrays) rows += a.note == "[t16 | 16]";
        CHECK(rows > 0);
        auto x = numbers<std::uint8_t>(48 * 48, 0, 50);
        std::vector<std::uint8_t> y(x.size());
        kernel.run({48}, x, y);
        for (std::size_t r = 0; r < 48; ++r)
            for (std::size_t c = 0; c < 48; ++c)
                REQUIRE(y[r * 48 + c] == static_cast<std::uint8_t>(x[r * 48 + c] * 3 + x[c * 48 + r]));
    });
}

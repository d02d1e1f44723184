#include <sys/mman.h>

#include "tests/lower/run.hpp"

// Where pieces lie: offsets of any sign and from data, picked axes, strides, packed axes, far rows, empty tensors.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("windows that begin before a tensor or end past it are masked on both sides", "[lower]") {
    for (const std::int64_t multiple : {1, 4}) {
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim rows = k.dim("rows"), cols = k.dim("cols", multiple_of(multiple));
            const auto x = k.input<i32>("x", {rows, cols});
            const auto y = k.output<i32>("y", {rows, cols});
            const auto [m, n] = k.grid(ceil_div(rows, 4) + 1, ceil_div(cols, 8) + 1);
            const auto v = load(x.window({4, 8}, {m * 4 - 3, n * 8 - 4}), Value<i32, 0>(50));
            store(y.window({4, 8}, {m * 4 - 2, n * 8 - 8}), v);
        });
        on_targets(p, [](const Lowered& kernel) {
            const std::int64_t rows = 14, cols = 40;
            auto x = numbers<std::int32_t>(rows * cols);
            std::vector<std::int32_t> y(x.size(), 99);
            kernel.run({rows, cols}, x, y);
            for (std::int64_t r = 0; r < rows; ++r)
                for (std::int64_t c = 0; c < cols; ++c) {
                    const std::int64_t from_r = r - 1, from_c = c + 4;
                    const bool inside = from_r >= 0 && from_c < cols;
                    REQUIRE(y[static_cast<std::size_t>(r * cols + c)] ==
                            (inside ? x[static_cast<std::size_t>(from_r * cols + from_c)] : 50));
                }
        });
    }
}

TEST_CASE("elements of a tensor serve as numbers: offsets, factors, fills, masks", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim rows = k.dim("rows"), cols = k.dim("cols");
        const auto x = k.input<f32>("x", {rows, cols});
        const auto ids = k.input<i32>("ids", {rows});
        const auto shift = k.input<i64>("shift", {rows, 2});
        const auto factor = k.input<f32>("factor", {rows});
        const auto keep = k.input<boolean>("keep", {rows});
        const auto y = k.output<f32>("y", {rows, cols});
        const auto sums = k.output<f32>("sums", {rows});
        const auto [m] = k.grid(rows);
        const auto id = cast<i64>(load(ids.window({1}, {m}))).squeeze(axis<0>);
        const auto right = load(shift[m][1]);
        const auto f = load(factor[m]);
        const auto v = load(x.window({1, 48}, {id, right}), f);
        store(y.window({1, 48}, {m, 0}), select(load(keep[m]) & (id > 2), v * f + cast<f32>(full({1, 48}, id)), -v));
        store(sums[m], reduce_sum(v, axis<1>).squeeze(axis<0>).squeeze(axis<0>) + f);
    });
    on_targets(p, [](const Lowered& kernel) {
        const std::int64_t rows = 12, cols = 48;
        auto x = numbers<float>(rows * cols), factor = numbers<float>(rows);
        auto ids = numbers<std::int32_t>(rows, -2, 13);
        auto shift = numbers<std::int64_t>(rows * 2, -20, 20);
        auto keep = numbers<std::uint8_t>(rows, 0, 1);
        std::vector<float> y(x.size()), sums(rows);
        kernel.run({rows, cols}, x, ids, shift, factor, keep, y, sums);
        for (std::int64_t m = 0; m < rows; ++m) {
            const auto row = static_cast<std::size_t>(m);
            float sum = 0;
            for (std::int64_t c = 0; c < 48; ++c) {
                const std::int64_t r = ids[row], from = c + shift[row * 2 + 1];
                const bool inside = r >= 0 && r < rows && from >= 0 && from < cols;
                const float v = inside ? x[static_cast<std::size_t>(r * cols + from)] : factor[row];
                const float expected = keep[row] && r > 2 ? v * factor[row] + static_cast<float>(r) : -v;
                REQUIRE(y[static_cast<std::size_t>(m * cols + c)] == expected);
                sum += v;
            }
            REQUIRE(sums[row] == sum + factor[row]);
        }
    });
}

TEST_CASE("strides of any kind: gaps, columns first, both at launch, packed axes", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim rows = k.dim("rows"), cols = k.dim("cols"), pitch = k.dim("pitch", multiple_of(4)),
                  step = k.dim("step");
        const auto x = k.input<u8>("x", {rows, cols}, {.align = 1, .strides = {pitch, 2}});
        const auto turned = k.output<u8>("turned", {cols, rows}, {.align = 1, .strides = {1, pitch}});
        const auto wide = k.output<u8>("wide", {rows, cols}, {.align = 1, .strides = {pitch * 3, step}});
        const auto packed = k.output<u8>("packed", {rows, cols}, {.strides = {4, AxisStride(pitch * 4).packed(4, 1)}});
        const auto [m, n] = k.grid(ceil_div(rows, 8), ceil_div(cols, 16));
        const auto v = load(x.block({8, 16}, {m, n}));
        store(turned.block({16, 8}, {n, m}), v.permute<1, 0>());
        store(wide.block({8, 16}, {m, n}), v + Value<u8, 0>(1));
        store(packed.block({8, 16}, {m, n}), v + Value<u8, 0>(2));
    });
    on_targets(p, [](const Lowered& kernel) {
        const std::int64_t rows = 13, cols = 27, pitch = 60, step = 5;
        auto x = numbers<std::uint8_t>(rows * pitch, 0, 99);
        std::vector<std::uint8_t> turned(x.size() * 2, 200), wide(x.size() * 3, 200), packed(pitch * 4 * 7, 200);
        kernel.run({rows, cols, pitch, step}, x, turned, wide, packed);
        auto expected_turned = turned, expected_wide = wide, expected_packed = packed;
        std::fill(expected_turned.begin(), expected_turned.end(), 200);
        std::fill(expected_wide.begin(), expected_wide.end(), 200);
        std::fill(expected_packed.begin(), expected_packed.end(), 200);
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < cols; ++c) {
                const std::uint8_t v = x[static_cast<std::size_t>(r * pitch + c * 2)];
                expected_turned[static_cast<std::size_t>(c + r * pitch)] = v;
                expected_wide[static_cast<std::size_t>(r * pitch * 3 + c * step)] = static_cast<std::uint8_t>(v + 1);
                expected_packed[static_cast<std::size_t>(r * 4 + c / 4 * pitch * 4 + c % 4)] =
                    static_cast<std::uint8_t>(v + 2);
            }
        CHECK(turned == expected_turned);
        CHECK(wide == expected_wide);
        CHECK(packed == expected_packed);
    });
}

TEST_CASE("rows further apart than 32 bits can count", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim rows = k.dim("rows"), pitch = k.dim("pitch", multiple_of(16));
        const auto x = k.inout<u8>("x", {rows, 40}, {.strides = {pitch, 1}});
        const auto [m] = k.grid(ceil_div(rows, 2));
        const auto v = load(x.block({2, 64}, {m, 0}));
        store(x.block({2, 64}, {m, 0}), v + cast<u8>(coordinates({2, 64}, axis<1>)) + Value<u8, 0>(1));
    });
    constexpr std::int64_t pitch = (std::int64_t{3} << 30) + 16;  // a row begins past 2^31, the next past 2^32
    constexpr std::size_t bytes = 2 * pitch + 4096;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    const auto at = [&](std::int64_t r, std::int64_t c) -> std::uint8_t& {
        return static_cast<std::uint8_t*>(memory)[r * pitch + c];
    };
    on_targets(p, [&](const Lowered& kernel) {
        for (std::int64_t r = 0; r < 3; ++r)
            for (std::int64_t c = 0; c < 48; ++c) at(r, c) = static_cast<std::uint8_t>(r * 50 + c);
        kernel.run_at({memory}, {3, pitch});
        for (std::int64_t r = 0; r < 3; ++r)
            for (std::int64_t c = 0; c < 48; ++c)
                REQUIRE(at(r, c) == static_cast<std::uint8_t>(r * 50 + c + (c < 40 ? c + 1 : 0)));
    });
    munmap(memory, bytes);
}

TEST_CASE("extents of 0 and grids of every rank", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim planes = k.dim("planes"), rows = k.dim("rows"), cols = k.dim("cols");
        const auto x = k.input<i16>("x", {planes, rows, cols});
        const auto y = k.output<i16>("y", {planes, rows, cols});
        const auto [l, m, n] = k.grid(ceil_div(planes, 2), rows, ceil_div(cols, 32) + 1);
        const auto v = load(x.window({2, 1, 32}, {l * 2, m, n * 32}));
        store(y.window({2, 1, 32}, {l * 2, m, n * 32}), v * Value<i16, 0>(3));
    });
    on_targets(p, [](const Lowered& kernel) {
        for (const std::vector<std::uint64_t>& e :
             {std::vector<std::uint64_t>{5, 3, 70}, {1, 1, 1}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}}) {
            auto x = numbers<std::int16_t>(static_cast<std::int64_t>(e[0] * e[1] * e[2]));
            x.reserve(1);
            std::vector<std::int16_t> y(x.size());
            y.reserve(1);
            kernel.run({e[0], e[1], e[2]}, x, y);
            for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(y[i] == x[i] * 3);
        }
    });
}

TEST_CASE("indices from a gather, a reduction and a loop lead on to further rows", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n"), turns = k.dim("turns");
        const auto x = k.input<i32>("x", {n, 32});
        const auto ids = k.input<i32>("ids", {n});
        const auto y = k.output<i32>("y", {turns, n, 32});
        k.threads(64);
        const auto [m] = k.grid(ceil_div(n, 16));
        const auto first = load(x.window({16, 32}, {load(ids.window({16}, {m * 16})), 0}), Value<i32, 0>(-1));
        const auto most = reduce_max(first, axis<1>).squeeze(axis<1>);
        k.serial(turns, [&](Index i) {
            const auto next = load(x.window({16, 32}, {cast<i64>(most) * 3 - i, 4}));
            store(y[i].window({16, 32}, {m * 16, 0}), first * 10 + next);
        });
    });
    on_targets(p, [](const Lowered& kernel) {
        const std::int64_t n = 40, turns = 3;
        auto x = numbers<std::int32_t>(n * 32, -9, 13);
        auto ids = numbers<std::int32_t>(n, -2, 42);
        std::vector<std::int32_t> y(static_cast<std::size_t>(turns * n * 32));
        kernel.run({n, turns}, x, ids, y);
        const auto at = [&](std::int64_t r, std::int64_t c, std::int32_t fill) {
            return r < 0 || r >= n || c >= 32 ? fill : x[static_cast<std::size_t>(r * 32 + c)];
        };
        for (std::int64_t r = 0; r < n; ++r) {
            const std::int64_t id = ids[static_cast<std::size_t>(r)];
            std::int32_t most = at(id, 0, -1);
            for (std::int64_t c = 1; c < 32; ++c) most = std::max(most, at(id, c, -1));
            for (std::int64_t i = 0; i < turns; ++i)
                for (std::int64_t c = 0; c < 32; ++c)
                    REQUIRE(y[static_cast<std::size_t>((i * n + r) * 32 + c)] ==
                            at(id, c, -1) * 10 + at(most * 3 - i, c + 4, 0));
        }
    });
}

#include "tests/lower/run.hpp"

// Loops: what is carried round them, how often they turn, what of outside is used inside.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("variables of several ranks and types", "[lower]") {
    for (const TileShape& s : tile_shapes()) {
        INFO(s.rows << " x " << s.cols << " over " << s.threads);
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim turns = k.dim("turns");
            const auto x = k.input<i8>("x", {turns, s.rows, s.cols});
            const auto y = k.output<i32>("y", {s.rows, s.cols});
            const auto scalar = k.output<i64>("scalar", {1});
            k.threads(s.threads);
            k.grid(1);
            auto number = k.variable(Value<i64, 0>(1));
            auto line = k.variable(full({s.cols}, Value<i8, 0>(3)));
            auto cube = k.variable(full({2, s.rows, s.cols}, Value<u16, 0>(3)));
            auto mask = k.variable(full({s.rows, s.cols}, Value<boolean, 0>(true)));
            auto half = k.variable(full({s.rows, s.cols}, Value<bf16, 0>(0.0f)));
            k.serial(turns, [&](Index i) {
                const auto v = load(x[i].window({s.rows, s.cols}, {0, 0}));
                number = number.get() * 3 + i;
                line = line.get() + reduce_max(v, axis<0>).squeeze(axis<0>);
                cube = cube.get() + 1;
                mask = mask.get() ^ (v > 2);
                half = max(half.get(), cast<bf16>(v));
            });
            const auto two = reduce_max(cast<i32>(cube.get()), axis<0>).squeeze(axis<0>);
            const auto sum = cast<i32>(line.get()).unsqueeze(axis<0>) + two;
            store(y.window({s.rows, s.cols}, {0, 0}), select(mask.get(), sum, cast<i32>(cast<f32>(half.get()))));
            store(scalar[0], number.get());
        });
        on_targets(p, [&](const Lowered& kernel) {
            for (const std::int64_t turns : {0, 1, 4}) {
                auto x = numbers<std::int8_t>(4 * s.rows * s.cols);
                std::vector<std::int32_t> y(static_cast<std::size_t>(s.rows * s.cols));
                std::vector<std::int64_t> scalar(1);
                kernel.run({static_cast<std::uint64_t>(turns)}, x, y, scalar);
                std::int64_t number = 1;
                for (std::int64_t i = 0; i < turns; ++i) number = number * 3 + i;
                REQUIRE(scalar[0] == number);
                for (std::int64_t r = 0; r < s.rows; ++r)
                    for (std::int64_t c = 0; c < s.cols; ++c) {
                        std::int8_t line = 3;
                        bool mask = true;
                        int half = 0;
                        for (std::int64_t i = 0; i < turns; ++i) {
                            const auto at = [&](std::int64_t q) {
                                return x[static_cast<std::size_t>((i * s.rows + q) * s.cols + c)];
                            };
                            std::int8_t most = at(0);
                            for (std::int64_t q = 1; q < s.rows; ++q) most = std::max(most, at(q));
                            line = static_cast<std::int8_t>(line + most);
                            mask ^= at(r) > 2;
                            half = std::max<int>(half, at(r));
                        }
                        REQUIRE(y[static_cast<std::size_t>(r * s.cols + c)] == (mask ? line + 3 + turns : half));
                    }
            }
        });
    }
}

TEST_CASE("loops inside loops use values of all outer scopes", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n"), outer = k.dim("outer");
        const auto x = k.input<i32>("x", {n});
        const auto y = k.output<i32>("y", {outer, 3, n});
        const auto [m] = k.grid(ceil_div(n, 48));
        const auto v = load(x.block({48}, {m}));
        const auto scaled = v * 2 + 1;
        const auto most = reduce_max(scaled, axis<0>);
        const Index mixed = n + outer * 2;
        k.serial(outer, [&](Index i) {
            const auto u = scaled * most + cast<i32>(full({48}, i * mixed));
            k.serial(3, [&](Index j) { store(y[i][j].block({48}, {m}), u - cast<i32>(full({48}, j)) + most); });
        });
    });
    on_targets(p, [](const Lowered& kernel) {
        auto x = numbers<std::int32_t>(100);
        std::vector<std::int32_t> y(5 * 3 * 100);
        kernel.run({100, 5}, x, y);
        for (int e = 0; e < 100; ++e) {
            int most = e / 48 == 2 ? 1 : -1000;  // the last block holds elements past the end, which are 0
            for (int q = e / 48 * 48; q < std::min(100, (e / 48 + 1) * 48); ++q) most = std::max(most, x[q] * 2 + 1);
            for (int i = 0; i < 5; ++i)
                for (int j = 0; j < 3; ++j)
                    REQUIRE(y[static_cast<std::size_t>((i * 3 + j) * 100 + e)] ==
                            (x[e] * 2 + 1) * most + i * (100 + 10) - j + most);
        }
    });
}

TEST_CASE("data may say how often a loop turns, with reductions and barriers inside", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<i32>("x", {n, 100});
        const auto counts = k.input<i32>("counts", {n});
        const auto y = k.output<i32>("y", {n, 100});
        const auto [m] = k.grid(n);
        const auto v = load(x[m].window({100}, {0}));
        auto state = k.variable(v);
        const auto most = reduce_max(v, axis<0>).squeeze(axis<0>);  // made by all threads together
        k.serial(cast<i64>(most), [&](Index i) {
            state = state.get() % 1000 + reduce_sum(state.get() % 7, axis<0>) + cast<i32>(full({100}, i));
        });
        k.serial(cast<i64>(load(counts[m])), [&](Index) { state = state.get() + reduce_min(state.get(), axis<0>); });
        auto turns = k.variable(cast<i64>(most) / 2);
        k.serial(turns.get(), [&](Index) { state = state.get() - reduce_max(state.get() % 5, axis<0>); });
        store(y[m].window({100}, {0}), state.get());
    });
    on_targets(p, [](const Lowered& kernel) {
        constexpr int n = 6;
        auto x = numbers<std::int32_t>(n * 100, -9, 4);
        std::vector<std::int32_t> counts = {0, 1, 2, 3, -5, 1}, y(n * 100);
        for (int e = 0; e < 100; ++e) x[static_cast<std::size_t>(500 + e)] = -3;  // no turn at all
        kernel.run({n}, x, counts, y);
        for (int m = 0; m < n; ++m) {
            std::vector<std::int32_t> s(x.begin() + m * 100, x.begin() + (m + 1) * 100);
            const int most = *std::max_element(s.begin(), s.end());
            for (int i = 0; i < most; ++i) {
                int sum = 0;
                for (int e : s) sum += e % 7;
                for (int& e : s) e = e % 1000 + sum + i;
            }
            for (int i = 0; i < counts[static_cast<std::size_t>(m)]; ++i) {
                const int low = *std::min_element(s.begin(), s.end());
                for (int& e : s) e += low;
            }
            for (int i = 0; i < most / 2; ++i) {
                int high = -10;
                for (int e : s) high = std::max(high, e % 5);
                for (int& e : s) e -= high;
            }
            REQUIRE(std::equal(s.begin(), s.end(), y.begin() + m * 100));
        }
    });
}

TEST_CASE("values read of variables keep what they were on their line", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim turns = k.dim("turns");
        const auto x = k.input<i32>("x", {48});
        const auto y = k.output<i32>("y", {2, 48});
        const auto z = k.output<i64>("z", {2});
        k.grid(1);
        const auto v = load(x.window({48}, {0}));
        auto a = k.variable(v), b = k.variable(v + 1);
        auto s = k.variable(turns + 1), t = k.variable(turns * 2);
        k.serial(turns, [&](Index i) {
            const auto old = a.get();
            a = b.get();
            b = old + b.get();
            const auto number = s.get();
            s = t.get() + i;
            t = number + t.get() % 7;
            k.serial(s.get() % 3, [&](Index j) {
                const auto inner = a.get();
                a = b.get() - cast<i32>(full({48}, i + j));
                b = inner;
            });
        });
        store(y[0].window({48}, {0}), a.get() + a.get() * 2);
        store(y[1].window({48}, {0}), b.get());
        store(z[0], s.get());
        store(z[1], t.get());
    });
    on_targets(p, [](const Lowered& kernel) {
        for (const std::int64_t turns : {0, 1, 6}) {
            auto x = numbers<std::int32_t>(48);
            std::vector<std::int32_t> y(96);
            std::vector<std::int64_t> z(2);
            kernel.run({static_cast<std::uint64_t>(turns)}, x, y, z);
            for (std::size_t e = 0; e < 48; ++e) {
                std::int64_t a = x[e], b = x[e] + 1, s = turns + 1, t = turns * 2;
                for (std::int64_t i = 0; i < turns; ++i) {
                    const std::int64_t old = a, number = s;
                    a = b, b = old + b;
                    s = t + i, t = number + t % 7;
                    for (std::int64_t j = 0; j < s % 3; ++j) {
                        const std::int64_t inner = a;
                        a = b - i - j, b = inner;
                    }
                }
                REQUIRE(y[e] == 3 * a);
                REQUIRE(y[48 + e] == b);
                REQUIRE(z == std::vector<std::int64_t>{s, t});
            }
        }
    });
}

TEST_CASE("a variable is read beside tiles of several layouts", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {16, 32});
        const auto sum = k.output<f32>("sum", {16, 32}), difference = k.output<f32>("difference", {16, 32});
        k.threads(32);
        k.grid(1);
        auto s = k.variable(full({16, 32}, Value<f32, 0>(0.0f)));
        const auto rows = load(x.window({16, 32}, {0, 0}), {.per_thread = {1, 4}});
        const auto columns = load(x.window({16, 32}, {0, 0}), {.per_thread = {4, 1}});
        s = s.get() + 3.0f;
        store(sum.window({16, 32}, {0, 0}), s.get() + rows);
        store(difference.window({16, 32}, {0, 0}), s.get() - columns);
    });
    on_targets(p, [](const Lowered& kernel) {
        auto x = numbers<float>(16 * 32);
        std::vector<float> sum(x.size()), difference(x.size());
        kernel.run({}, x, sum, difference);
        for (std::size_t i = 0; i < x.size(); ++i) {
            CHECK(sum[i] == 3 + x[i]);
            CHECK(difference[i] == 3 - x[i]);
        }
    });
}

TEST_CASE("a variable of narrow elements holds them packed, unless a conversion sets it", "[lower]") {
    const auto kernel_of = [](bool converted) {
        return record("kernel", [=](Kernel& k) {
            const auto x = k.input<i8>("x", {3, 32, 32});
            const auto y = k.output<i8>("y", {32, 32});
            k.threads(64);
            k.grid(1);
            auto s = k.variable(load(x[0].window({32, 32}, {0, 0}), {.per_thread = {1, 16}}));
            k.serial(2, [&](Index i) {
                const auto next = x[i + 1].window({32, 32}, {0, 0});
                s = converted ? load(next, {.per_thread = {16, 1}}) : max(s.get(), load(next));
            });
            store(y.window({32, 32}, {0, 0}), s.get());
        });
    };
    for (const bool converted : {false, true})
        on_targets(kernel_of(converted), [&](const Lowered& kernel) {
            CHECK(kernel.program().arrays.front().name == "s0");
            CHECK(kernel.program().arrays.front().pack == (converted ? 1 : 4));
            auto x = numbers<std::int8_t>(3 * 1024);
            std::vector<std::int8_t> y(1024), expected(x.begin() + 2048, x.end());
            kernel.run({}, x, y);
            for (std::size_t i = 0; !converted && i < 1024; ++i)
                expected[i] = std::max({x[i], x[1024 + i], x[2048 + i]});
            CHECK(y == expected);
        });
}

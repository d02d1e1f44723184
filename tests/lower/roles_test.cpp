#include <functional>
#include <random>

#include "tests/lower/run.hpp"

// k.roles and k.ring: every use reads what its fill has copied, whatever the number of stages, warps, roles and turns.

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t rows = 8, cols = 32;

struct Shape2 {
    int stages, copiers, adders;
    bool copier_first = true;
};

/// y[c][r] = Σ over i < count of x[i][r][c], plus the largest of its row: tiles come through a ring, and the reduction
/// needs barriers inside the role.
Program sums(const Shape2& shape) {
    return record("kernel", [=](Kernel& k) {
        const Dim items = k.dim("items");
        const auto x = k.input<f32>("x", {items, rows, cols});
        const auto y = k.output<f32>("y", {cols, rows}, {.align = 4});
        const Index count = k.scalar<i64>("count");
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {shape.stages, rows, cols});
        const auto ring = k.ring({.stages = shape.stages});
        const RoleOptions copier{.name = "copier", .warps = shape.copiers};
        const RoleOptions adder{.name = "adder", .warps = shape.adders};
        const auto copy = [&] {
            k.serial(count, [&](Index i) {
                ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[i].window({rows, cols}, {0, 0})); });
            });
        };
        const auto add = [&] {
            auto sum = k.variable(full({cols, rows}, Value<f32, 0>(0.0f)));
            k.serial(count, [&](Index) {
                ring.use([&](Index slot) {
                    sum = sum.get() + load(tile[slot].whole(), {.per_thread = {1, 1}}).permute<1, 0>();
                });
            });
            store(y.window({cols, rows}, {0, 0}), sum.get() + reduce_max(sum.get(), axis<0>));
        };
        if (shape.copier_first)
            k.roles(copier, copy, adder, add);
        else
            k.roles(adder, add, copier, copy);
    });
}

std::vector<float> expected_sums(const std::vector<float>& x, std::size_t count) {
    std::vector<float> y(rows * cols, 0.0f);
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < cols; ++c) y[c * rows + r] += x[(i * rows + r) * cols + c];
    for (std::size_t r = 0; r < rows; ++r) {
        float most = y[r];
        for (std::size_t c = 0; c < cols; ++c) most = std::max(most, y[c * rows + r]);
        for (std::size_t c = 0; c < cols; ++c) y[c * rows + r] += most;
    }
    return y;
}

}  // namespace

TEST_CASE("every use of a ring reads what its fill has copied", "[lower][roles]") {
    for (const Shape2& shape :
         {Shape2{1, 1, 1}, Shape2{2, 1, 2}, Shape2{3, 2, 4, false}, Shape2{5, 4, 8}, Shape2{4, 1, 4, false}})
        on_targets(sums(shape), [&](const Lowered& kernel) {
            INFO(shape.stages << " stages, " << shape.copiers << " + " << shape.adders << " warps");
            for (const std::uint64_t count : {0u, 1u, 2u, 3u, 4u, 7u, 11u}) {
                auto x = numbers<float>(11 * rows * cols);
                std::vector<float> y(rows * cols, -1.0f);
                kernel.run({11, count}, x, y);
                CHECK(y == expected_sums(x, count));
            }
        });
}

TEST_CASE("roles copy with registers to spare and add with the most", "[lower][roles]") {
    const auto program = record("kernel", [](Kernel& k) {
        const Dim items = k.dim("items");
        const auto x = k.input<bf16>("x", {items, 2048});
        const auto y = k.output<f32>("y", {items, 2048});
        const Index block = k.grid(ceil_div(items, 4)).x;
        const auto tile = k.shared<bf16>("tile", {3, 2048});
        const auto ring = k.ring({.stages = 3});
        k.roles(
            {.name = "copier", .warps = 4, .registers = 40},
            [&] {
                k.serial(4, [&](Index i) {
                    k.when(block * 4 + i < items, [&] {
                        ring.fill(
                            [&](Index slot) { copy_async(tile[slot].whole(), x[block * 4 + i].block({2048}, {0})); });
                    });
                });
            },
            {.name = "doubler", .warps = 8, .registers = 232},
            [&] {
                k.serial(4, [&](Index i) {
                    k.when(block * 4 + i < items, [&] {
                        ring.use([&](Index slot) {
                            store(y[block * 4 + i].block({2048}, {0}), cast<f32>(load(tile[slot].whole())) * 2.0f);
                        });
                    });
                });
            });
    });
    on_targets(program, [](const Lowered& kernel) {
        for (const std::uint64_t items : {1u, 4u, 6u, 9u}) {
            auto bits = numbers<std::uint16_t>(static_cast<std::int64_t>(items) * 2048, 0, 0x7f00);
            std::vector<float> y(bits.size()), expected;
            for (std::uint16_t b : bits)
                expected.push_back(2.0f * std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16));
            kernel.run({items}, bits, y);
            CHECK(y == expected);
        }
    });
}

TEST_CASE("what the block has stored is there in every role, by whichever threads", "[lower][roles]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {512});
        const auto y = k.output<f32>("y", {2, 512});
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {512});
        store(tile.whole(), load(x.block({512}, {0}), {.per_thread = {4}}));
        // Thread 128 is the second role's first, and reads what thread 0 has stored.
        const auto copy = [&](std::int64_t row) {
            store(y[row].block({512}, {0}), load(tile.whole(), {.per_thread = {4}}));
        };
        k.roles({.name = "upper", .warps = 4}, [&] { copy(0); }, {.name = "lower", .warps = 4}, [&] { copy(1); });
    });
    on_targets(program, [](const Lowered& kernel) {
        CHECK(kernel.count<ir::Barrier>() >= 1);
        auto x = numbers<float>(512);
        std::vector<float> y(1024), expected(x);
        expected.insert(expected.end(), x.begin(), x.end());
        kernel.run({}, x, y);
        CHECK(y == expected);
    });
}

TEST_CASE("two roles use one ring, and a role uses two", "[lower][roles]") {
    const auto program = record("kernel", [](Kernel& k) {
        const Dim items = k.dim("items");
        const auto a = k.input<f32>("a", {items, 256});
        const auto b = k.input<f32>("b", {items, 64});
        const auto sum = k.output<f32>("sum", {256});
        const auto most = k.output<f32>("most", {256});
        const auto low = k.output<f32>("low", {items, 64});
        k.grid(1);
        const auto tile_a = k.shared<f32>("tile_a", {2, 256});
        const auto tile_b = k.shared<f32>("tile_b", {3, 64});
        const auto ring_a = k.ring({.stages = 2}), ring_b = k.ring({.stages = 3});
        k.roles(
            {.name = "adder", .warps = 2},
            [&] {
                auto s = k.variable(full({256}, Value<f32, 0>(0.0f)));
                k.serial(items, [&](Index i) {
                    ring_a.use([&](Index slot) { s = s.get() + load(tile_a[slot].whole()); });
                    ring_b.use([&](Index slot) { store(low[i].block({64}, {0}), load(tile_b[slot].whole()) - 1.0f); });
                });
                store(sum.block({256}, {0}), s.get());
            },
            {.name = "copier", .warps = 1},
            [&] {
                k.serial(items, [&](Index i) {
                    ring_a.fill([&](Index slot) { copy_async(tile_a[slot].whole(), a[i].block({256}, {0})); });
                    ring_b.fill([&](Index slot) { copy_async(tile_b[slot].whole(), b[i].block({64}, {0})); });
                });
            },
            {.name = "judge", .warps = 4},
            [&] {
                auto m = k.variable(full({256}, Value<f32, 0>(-100.0f)));
                k.serial(items,
                         [&](Index) { ring_a.use([&](Index slot) { m = max(m.get(), load(tile_a[slot].whole())); }); });
                store(most.block({256}, {0}), m.get());
            });
    });
    on_targets(program, [](const Lowered& kernel) {
        for (const std::uint64_t items : {1u, 2u, 5u, 8u}) {
            auto a = numbers<float>(static_cast<std::int64_t>(items) * 256);
            auto b = numbers<float>(static_cast<std::int64_t>(items) * 64, -99, 99);
            std::vector<float> sum(256), most(256), low(b.size());
            std::vector<float> s(256, 0.0f), m(256, -100.0f), l;
            for (std::size_t i = 0; i < a.size(); ++i) s[i % 256] += a[i], m[i % 256] = std::max(m[i % 256], a[i]);
            for (float v : b) l.push_back(v - 1.0f);
            kernel.run({items}, a, b, sum, most, low);
            CHECK(sum == s);
            CHECK(most == m);
            CHECK(low == l);
        }
    });
}

TEST_CASE("a product and a running sum in a role are the role's own", "[lower][roles]") {
    const auto program = record("kernel", [](Kernel& k) {
        const auto a = k.input<bf16>("a", {3, 32, 64});
        const auto w = k.input<bf16>("w", {16, 64});
        const auto y = k.output<f32>("y", {32, 16});
        const auto z = k.output<i32>("z", {64});
        k.grid(1);
        const auto tile = k.shared<bf16>("tile", {2, 32, 64});
        const auto ring = k.ring({.stages = 2});
        k.roles(
            {.name = "copier", .warps = 2},
            [&] {
                k.serial(3, [&](Index i) {
                    ring.fill([&](Index slot) { copy_async(tile[slot].whole(), a[i].window({32, 64}, {0, 0})); });
                });
                store(z.block({64}, {0}), inclusive_sum(full({64}, Value<i32, 0>(3)), axis<0>));
            },
            {.name = "multiplier", .warps = 4},
            [&] {
                auto sum = k.variable(full({32, 16}, Value<f32, 0>(0.0f)));
                k.serial(3, [&](Index) {
                    ring.use([&](Index slot) {
                        sum = mma(load(tile[slot].whole()), load(w.window({16, 64}, {0, 0})), sum.get());
                    });
                });
                store(y.window({32, 16}, {0, 0}), sum.get());
            });
    });
    on_targets(program, [](const Lowered& kernel) {
        const auto bf = [](float f) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(f) >> 16); };
        const auto whole_a = numbers<int>(3 * 32 * 64), whole_w = numbers<int>(16 * 64, -4, 5);
        std::vector<std::uint16_t> a, w;
        for (int v : whole_a) a.push_back(bf(static_cast<float>(v)));
        for (int v : whole_w) w.push_back(bf(static_cast<float>(v)));
        std::vector<float> y(32 * 16), expected(32 * 16, 0.0f);
        for (std::size_t i = 0; i < 3; ++i)
            for (std::size_t m = 0; m < 32; ++m)
                for (std::size_t n = 0; n < 16; ++n)
                    for (std::size_t j = 0; j < 64; ++j)
                        expected[m * 16 + n] +=
                            static_cast<float>(whole_a[(i * 32 + m) * 64 + j] * whole_w[n * 64 + j]);
        std::vector<std::int32_t> z(64);
        kernel.run({}, a, w, y, z);
        CHECK(y == expected);
        for (std::size_t i = 0; i < z.size(); ++i) CHECK(z[i] == 3 * (static_cast<int>(i) + 1));
    });
}

TEST_CASE("rings of random stages, tiles, warps and turns", "[lower][roles]") {
    std::mt19937 random(20261);
    const auto any = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    for (int round = 0; round < 24; ++round) {
        const int stages = any(1, 6), copier = 1 << any(0, 2), user = 1 << any(0, 3), lines = any(1, 40);
        const int width = 4 * any(1, 40), turns = any(0, 9), outer = any(1, 3);
        INFO("round " << round << ": " << stages << " stages, " << copier << " + " << user << " warps, " << lines
                      << " x " << width << ", " << outer << " times " << turns);
        const auto program = record("kernel", [&](Kernel& k) {
            const Dim n = k.dim("n");
            const auto x = k.input<f32>("x", {n, lines, width});
            const auto y = k.output<f32>("y", {n, lines, width});
            k.grid(1);
            const auto tile = k.shared<f32>("tile", {stages, lines, width});
            const auto ring = k.ring({.stages = stages});
            // Slots go on where the loop before has left off.
            const auto each = [&](auto&& body) {
                k.serial(outer, [&](Index o) { k.serial(turns, [&](Index i) { body(o * turns + i); }); });
            };
            k.roles(
                {.warps = copier},
                [&] {
                    each([&](Index i) {
                        ring.fill(
                            [&](Index slot) { copy_async(tile[slot].whole(), x[i].window({lines, width}, {0, 0})); });
                    });
                },
                {.warps = user},
                [&] {
                    each([&](Index i) {
                        ring.use([&](Index slot) {
                            store(y[i].window({lines, width}, {0, 0}), load(tile[slot].whole()) + 1.0f);
                        });
                    });
                });
        });
        const Lowered kernel(program, Target::h200());
        auto x = numbers<float>(static_cast<std::int64_t>(std::max(1, outer * turns)) * lines * width);
        std::vector<float> y(x.size(), 7.0f), expected(x.size(), 7.0f);
        for (std::size_t i = 0; i < static_cast<std::size_t>(outer * turns * lines * width); ++i)
            expected[i] = x[i] + 1.0f;
        kernel.run({static_cast<std::uint64_t>(std::max(1, outer * turns))}, x, y);
        CHECK(y == expected);
    }
}

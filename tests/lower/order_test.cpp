#include "tests/lower/run.hpp"

// Barriers stand where one thread meets what another has touched, in shared memory and in tensors, and nowhere else.

using namespace tessera;
using namespace tessera::test;

namespace {

int barriers(const Program& p) {
    const Lowered h200(p, Target::h200()), b200(p, Target::b200());
    CHECK(h200.count<ir::Barrier>() == b200.count<ir::Barrier>());
    return h200.count<ir::Barrier>();
}

/// A kernel on one 16 × 16 tile at the block's place in x, with y beside it.
template <class Body>
int barriers_of(Body&& body) {
    return barriers(record("kernel", [&](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.inout<f32>("x", {n, 16});
        const auto y = k.output<f32>("y", {n, 16});
        k.threads(32);
        const auto [m] = k.grid(ceil_div(n, 16));
        body(k, x, y, m);
    }));
}

}  // namespace

TEST_CASE("a tensor that each thread keeps to its own elements of needs no barrier", "[lower]") {
    CHECK(barriers_of([](Kernel&, auto x, auto, Index m) {
              const auto piece = x.block({16, 16}, {m, 0});
              store(piece, load(piece) * 2.0f);
              store(piece, load(piece) + 1.0f);
          }) == 0);
    CHECK(barriers_of([](Kernel& k, auto x, auto y, Index m) {
              k.serial(4, [&](Index i) { store(y.block({16, 16}, {i, 0}), load(x.block({16, 16}, {m, 0}))); });
          }) == 0);
}

TEST_CASE("a tile stored where other threads have loaded or will load waits for them", "[lower]") {
    // The transposed elements are other threads' own.
    CHECK(barriers_of([](Kernel&, auto x, auto, Index m) {
              const auto piece = x.block({16, 16}, {m, 0});
              store(piece, load(piece).template permute<1, 0>());
          }) == 1);
    // A row that every thread loads for itself, and one thread of many replaces.
    CHECK(barriers_of([](Kernel&, auto x, auto y, Index m) {
              const auto row = load(x.window({1, 16}, {m * 16, 0}));
              store(x.window({1, 16}, {m * 16, 0}), row + 1.0f);
              store(y.block({16, 16}, {m, 0}), full({16, 16}, Value<f32, 0>(1.0f)) * row);
          }) == 1);
    // Written, read as other extents, written again.
    CHECK(barriers_of([](Kernel&, auto x, auto y, Index m) {
              store(x.block({16, 16}, {m, 0}), full({16, 16}, Value<f32, 0>(1.0f)));
              store(y.block({16, 16}, {m, 0}), load(x.window({16, 16}, {m * 16 - 8, 0})));
          }) == 1);
}

TEST_CASE("of two stores in unlike layouts the later one wins", "[lower]") {
    CHECK(barriers_of([](Kernel&, auto x, auto y, Index m) {
              const auto v = load(x.block({16, 16}, {m, 0}));
              store(y.block({16, 16}, {m, 0}), v);
              store(y.block({16, 16}, {m, 0}), v.template permute<1, 0>());
          }) == 1);
    // Windows that overlap from turn to turn.
    CHECK(barriers_of([](Kernel& k, auto x, auto y, Index m) {
              const auto v = load(x.block({16, 16}, {m, 0}));
              k.serial(4, [&](Index i) { store(y.window({16, 16}, {i, 0}), v); });
          }) == 1);
}

TEST_CASE("additions commute, scatters are open: neither is ordered", "[lower]") {
    CHECK(barriers(record("kernel", [](Kernel& k) {
              const auto sums = k.inout<i32>("sums", {64});
              const auto ids = k.input<i32>("ids", {64});
              const auto y = k.output<i32>("y", {64});
              k.grid(1);
              const auto id = load(ids.window({64}, {0}));
              k.serial(3, [&](Index i) {
                  atomic_add(sums.window({32}, {i}), full({32}, Value<i32, 0>(1)));
                  store(y.window({64}, {id}), id);
              });
          })) == 0);
}

TEST_CASE("shared tiles in loops are ordered from turn to turn, once each way", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<i32>("x", {n, 4, 64});
        const auto y = k.output<i32>("y", {n, 4, 64});
        const auto tile = k.shared<i32>("tile", {4, 64});
        const auto [m] = k.grid(1);
        k.serial(n, [&](Index i) {
            store(tile.whole(), load(x[i].window({4, 64}, {0, 0})));
            const auto turned = load(tile.whole()).permute<1, 0>();
            store(y[i + m].window({4, 64}, {0, 0}), turned.merge(axis<0>).split(axis<0>, 64));
        });
    });
    on_targets(p, [](const Lowered& kernel) {
        auto x = numbers<std::int32_t>(3 * 256);
        std::vector<std::int32_t> y(x.size());
        kernel.run({3}, x, y);
        for (std::size_t i = 0; i < y.size(); ++i) {
            const std::size_t turn = i / 256, at = i % 256;
            REQUIRE(y[i] == x[turn * 256 + at % 4 * 64 + at / 4]);
        }
    });
}

TEST_CASE("one line that stores several times writes and reads in turn", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {8, 32});
        const auto y = k.output<f32>("y", {3, 8, 32});
        const auto tile = k.shared<f32>("tile", {8, 32});
        const auto halves = k.shared<bf16>("halves", {32, 8}, {2, 0, 3});
        k.grid(1);
        auto v = load(x.window({8, 32}, {0, 0}));
        for (int i = 0; i < 3; ++i) {
            store(tile.whole(), v * static_cast<float>(i));
            store(halves.whole(), cast<bf16>(load(tile.whole())).permute<1, 0>());
            v = load(tile.whole()) + cast<f32>(load(halves.whole())).permute<1, 0>() + 1.0f;
            store(y[i].window({8, 32}, {0, 0}), v);
        }
    });
    on_targets(p, [](const Lowered& kernel) {
        auto x = numbers<float>(256);
        std::vector<float> y(3 * 256);
        kernel.run({}, x, y);
        for (std::size_t e = 0; e < 256; ++e) {
            float v = x[e];
            for (int i = 0; i < 3; ++i) {
                v = 2 * v * static_cast<float>(i) + 1;
                REQUIRE(y[static_cast<std::size_t>(i) * 256 + e] == v);
            }
        }
    });
}

TEST_CASE("windows and picks of a shared tile, under every swizzle", "[lower]") {
    for (const SwizzleOptions& swizzle :
         {SwizzleOptions{}, {1, 0, 1}, {2, 1, 3}, {3, 3, 3}, {3, 0, 5}, {2, 3, 2}, {3, 2, 12}}) {
        INFO("swizzle " << swizzle.bits << ", " << swizzle.base << ", " << swizzle.shift);
        const Program p = record("kernel", [=](Kernel& k) {
            const Dim n = k.dim("n");
            const auto x = k.input<u8>("x", {n, 8, 16});
            const auto y = k.output<u8>("y", {n, 8, 16});
            const auto ring = k.shared<u8>("ring", {4, 8, 16}, swizzle);
            k.threads(64);
            k.grid(1);
            for (int i = 0; i < 4; ++i) store(ring[i].whole(), full({8, 16}, Value<u8, 0>(i + 1)));
            store(ring[3][7][15], Value<u8, 0>(77));
            k.serial(n, [&](Index i) {
                store(ring[i % 4].window({8, 8}, {0, 8}), load(x[i].window({8, 8}, {0, 0})));
                const auto other = load(ring[(i + 3) % 4].window({8, 16}, {0, 0}));
                store(y[i].window({8, 16}, {0, 0}), other + load(ring[i % 4][5][9]));
            });
        });
        on_targets(p, [](const Lowered& kernel) {
            constexpr std::size_t n = 6;
            auto x = numbers<std::uint8_t>(n * 128, 0, 50);
            std::vector<std::uint8_t> y(x.size()), ring(4 * 128);
            kernel.run({n}, x, y);
            for (std::size_t i = 0; i < ring.size(); ++i) ring[i] = static_cast<std::uint8_t>(i / 128 + 1);
            ring.back() = 77;
            for (std::size_t i = 0; i < n; ++i) {
                for (std::size_t r = 0; r < 8; ++r)
                    for (std::size_t c = 0; c < 8; ++c) ring[i % 4 * 128 + r * 16 + c + 8] = x[i * 128 + r * 16 + c];
                for (std::size_t e = 0; e < 128; ++e)
                    REQUIRE(y[i * 128 + e] ==
                            static_cast<std::uint8_t>(ring[(i + 3) % 4 * 128 + e] + ring[i % 4 * 128 + 5 * 16 + 9]));
            }
        });
    }
}

TEST_CASE("a shared tile that each thread keeps to its own elements of needs no barrier", "[lower]") {
    CHECK(barriers_of([](Kernel& k, auto x, auto y, Index m) {
              const auto sums = k.shared<f32>("sums", {16, 16});
              const auto all = sums.block({16, 16}, {0, 0});
              store(all, full({16, 16}, Value<f32, 0>(0.0f)));
              k.serial(4, [&](Index i) { store(all, load(all) + load(x.block({16, 16}, {i, 0}))); });
              store(y.block({16, 16}, {m, 0}), load(all));
          }) == 0);
    // Row by row, picked or in pieces, from wherever: a thread has its column in all of them.
    CHECK(barriers(record("kernel", [](Kernel& k) {
              const auto x = k.input<f32>("x", {16, 32});
              const auto y = k.output<f32>("y", {16, 32});
              k.threads(32);
              const auto [m] = k.grid(1);
              const auto rows = k.shared<f32>("rows", {20, 32});
              store(rows.window({16, 32}, {m + 3, 0}), load(x.block({16, 32}, {m, 0}), {.per_thread = {16, 1}}));
              k.serial(16,
                       [&](Index i) { store(y[i].block({32}, {0}), load(rows[i + 3].whole(), {.per_thread = {1}})); });
          })) == 0);
    // Rows that others have stored.
    CHECK(barriers_of([](Kernel& k, auto x, auto y, Index m) {
              const auto sums = k.shared<f32>("sums", {16, 16});
              store(sums.block({16, 16}, {0, 0}), load(x.block({16, 16}, {m, 0})));
              store(y.window({8, 16}, {m * 16, 0}), load(sums.window({8, 16}, {4, 0})));
          }) == 1);
}

TEST_CASE("tiles that the lowering needs for itself share a place before they fill the block", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {6, 128, 128});
        const auto y = k.output<f32>("y", {128, 128});
        k.threads(256);
        k.grid(1);
        auto sum = load(x[0].window({128, 128}, {0, 0}));
        for (int i = 1; i < 6; ++i)  // 64 KiB on the way each
            sum = sum + load(x[i].window({128, 128}, {0, 0})).permute<1, 0>() + reduce_max(sum, axis<0>);
        store(y.window({128, 128}, {0, 0}), sum);
    });
    on_targets(p, [](const Lowered& kernel) {
        CHECK(kernel.program().shared_bytes < 100 * 1024);
        auto x = numbers<float>(6 * 128 * 128);
        std::vector<float> y(128 * 128);
        kernel.run({}, x, y);
        std::vector<float> sum(x.begin(), x.begin() + 128 * 128);
        for (std::size_t i = 1; i < 6; ++i) {
            const std::vector<float> before = sum;
            for (std::size_t c = 0; c < 128; ++c) {
                float most = before[c];
                for (std::size_t r = 1; r < 128; ++r) most = std::max(most, before[r * 128 + c]);
                for (std::size_t r = 0; r < 128; ++r)
                    sum[r * 128 + c] = before[r * 128 + c] + x[i * 128 * 128 + c * 128 + r] + most;
            }
        }
        CHECK(y == sum);
    });
}

#include <algorithm>

#include "dsl/emit/cuda.hpp"
#include "tests/lower/run.hpp"

// Asynchronous copies: what lies outside becomes zeros, waits come before reads, and barriers where other threads read.

using namespace tessera;
using namespace tessera::test;

namespace {

/// y[m] = the block's rows of x, copied first, as `read` gives them from the tile.
template <class Read>
Program copying(std::int64_t cols, int threads, Read&& read) {
    return record("kernel", [&](Kernel& k) {
        const Dim n = k.dim("n"), pitch = k.dim("pitch", multiple_of(4));
        const auto x = k.input<f32>("x", {n, cols}, {.strides = {pitch, 1}});
        const auto y = k.output<f32>("y", {n, cols});
        k.threads(threads);
        const auto [m] = k.grid(ceil_div(n, 16));
        const auto tile = k.shared<f32>("tile", {16, 16});
        copy_async(tile.whole(), x.block({16, 16}, {m, 0}));
        wait_copies();
        store(y.block({16, 16}, {m, 0}), read(tile));
    });
}

std::string error_of(const Lowered& kernel, std::int64_t n) {
    std::vector<float> x(static_cast<std::size_t>(n * 16)), y(x.size());
    try {
        kernel.run_at({x.data(), y.data()}, {static_cast<std::uint64_t>(n), 16});
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("what is copied is read back, zeros where the tensor ends", "[lower]") {
    for (const int threads : {32, 128})
        for (const std::int64_t cols : {16, 12})
            on_targets(copying(cols, threads, [](auto tile) { return load(tile.whole()); }),
                       [&](const Lowered& kernel) {
                           CHECK(kernel.count<ir::WaitCopies>() == 1);
                           CHECK(kernel.text().find("cp.async.cg.shared.global") != std::string::npos);
                           constexpr int n = 21;
                           const auto x = numbers<float>(n * 20);
                           auto given = x;
                           std::vector<float> y(static_cast<std::size_t>(n * cols), -1.0f);
                           kernel.run({n, 20}, given, y);
                           for (int r = 0; r < n; ++r)
                               for (std::int64_t c = 0; c < cols; ++c)
                                   REQUIRE(y[static_cast<std::size_t>(r * cols + c)] ==
                                           x[static_cast<std::size_t>(r * 20 + c)]);
                       });
}

TEST_CASE("rows of a tile of indices are copied, zeros for those outside", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n"), rows = k.dim("rows");
        const auto x = k.input<bf16>("x", {n, 32});
        const auto pos = k.input<i32>("pos", {rows}, {.align = 4});
        const auto y = k.output<bf16>("y", {rows, 32});
        k.threads(64);
        const auto [m] = k.grid(ceil_div(rows, 16));
        const auto tile = k.shared<bf16>("tile", {16, 32});
        copy_async(tile.whole(), x.window({16, 32}, {load(pos.block({16}, {m}), -1), 0}));
        wait_copies();
        // Rows in reverse order: other threads' copies.
        const auto back = 15 - coordinates({16}, axis<0>);
        store(y.window({16, 32}, {back + m * 16, 0}), load(tile.whole()));
    });
    on_targets(p, [](const Lowered& kernel) {
        std::vector<std::uint16_t> x(9 * 32), y(20 * 32, 7);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(i + 1);
        std::vector<std::int32_t> pos(20);
        for (int i = 0; i < 20; ++i) pos[static_cast<std::size_t>(i)] = i * 5 % 12 - 1;  // −1 … 10
        kernel.run({9, 20}, x, pos, y);
        for (int row = 0; row < 20; ++row) {
            const int from = row / 16 * 16 + 15 - row % 16;
            const int at = from < 20 ? pos[static_cast<std::size_t>(from)] : -1;
            for (int c = 0; c < 32; ++c) {
                const int expected = at < 0 || at >= 9 ? 0 : at * 32 + c + 1;
                REQUIRE(y[static_cast<std::size_t>(row * 32 + c)] == expected);
            }
        }
    });
}

TEST_CASE("rows are copied to rows of a shared tile that a tile of indices picks", "[lower]") {
    const Program program = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<f32>("x", {n, 8, 32});
        const auto y = k.output<f32>("y", {n, 8, 32});
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 8, 32});
        const auto reversed = 7 - coordinates({8}, axis<0>);
        k.pipelined(
            n, {.stages = 2},
            [&](Index i, Index slot) {
                copy_async(tile[slot].window({8, 32}, {reversed, 0}), x[i].window({8, 32}, {0, 0}));
            },
            [&](Index i, Index slot) { store(y[i].window({8, 32}, {0, 0}), load(tile[slot].whole())); });
    });
    on_targets(program, [](const Lowered& kernel) {
        constexpr std::size_t n = 3;
        auto x = numbers<float>(n * 256);
        std::vector<float> y(x.size(), -1.0f);
        kernel.run({n}, x, y);
        for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(y[i] == x[i / 256 * 256 + (7 - i / 32 % 8) * 32 + i % 32]);
    });
}

TEST_CASE("threads that read their own copies need no barrier, others do", "[lower]") {
    on_targets(copying(16, 32, [](auto tile) { return load(tile.whole()); }),
               [](const Lowered& kernel) { CHECK(kernel.count<ir::Barrier>() == 0); });
    on_targets(copying(16, 32, [](auto tile) { return load(tile.window({16, 16}, {0, 0}), {.per_thread = {4, 1}}); }),
               [](const Lowered& kernel) {
                   CHECK(kernel.count<ir::Barrier>() == 1);
                   CHECK(error_of(kernel, 16) == "");
               });
}

TEST_CASE("a tile copied to again waits for its readers", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {8, 16, 16});
        const auto y = k.output<f32>("y", {16, 16});
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {16, 16});
        auto sum = k.variable(full({16, 16}, Value<f32, 0>(0.0f)));
        k.serial(8, [&](Index i) {
            copy_async(tile.whole(), x[i].window({16, 16}, {0, 0}));
            wait_copies();
            sum = sum.get() + load(tile.whole()).permute<1, 0>();
        });
        store(y.window({16, 16}, {0, 0}), sum.get());
    });
    on_targets(p, [](const Lowered& kernel) {
        auto x = numbers<float>(8 * 256);
        std::vector<float> y(256);
        kernel.run({}, x, y);
        for (std::size_t r = 0; r < 16; ++r)
            for (std::size_t c = 0; c < 16; ++c) {
                float sum = 0;
                for (std::size_t i = 0; i < 8; ++i) sum += x[i * 256 + c * 16 + r];
                REQUIRE(y[r * 16 + c] == sum);
            }
    });
}

TEST_CASE("a tile read before the wait, and a copy nothing waits for, are errors of their lines", "[lower]") {
    const auto kernel_with = [](bool wait_first, bool wait_last) {
        return Lowered(record("kernel",
                              [=](Kernel& k) {
                                  const Dim n = k.dim("n"), pitch = k.dim("pitch", multiple_of(4));
                                  const auto x = k.input<f32>("x", {n, 16}, {.strides = {pitch, 1}});
                                  const auto y = k.output<f32>("y", {n, 16});
                                  k.threads(32);
                                  const auto [m] = k.grid(ceil_div(n, 16));
                                  const auto tile = k.shared<f32>("tile", {16, 16});
                                  store(tile.whole(), full({16, 16}, Value<f32, 0>(1.0f)));
                                  copy_async(tile.whole(), x.block({16, 16}, {m, 0}));
                                  if (wait_first) wait_copies();
                                  store(y.block({16, 16}, {m, 0}), load(tile.whole()));
                                  copy_async(tile.whole(), x.block({16, 16}, {m, 0}));
                                  if (wait_last) wait_copies();
                              }),
                       Target::h200());
    };
    CHECK(error_of(kernel_with(true, true), 16) == "");
    const std::string early = error_of(kernel_with(false, true), 16);
    CHECK_THAT(early, Catch::Contains("the load from tile[0, 0…3] meets a copy that is under way, started at") &&
                          Catch::Contains("copy_test.cpp") && Catch::Contains("put wait_copies() between the two"));
    CHECK_THAT(error_of(kernel_with(true, false), 16),
               Catch::Contains("a copy to tile is still under way when the block ends"));
}

TEST_CASE("copies that no instruction can make are refused on their line", "[lower]") {
    const auto refused = [](auto&& body) -> std::string {
        try {
            Lowered(record("kernel", body), Target::h200());
        } catch (const UsageError& error) {
            return error.what();
        }
        return "";
    };
    CHECK_THAT(refused([](Kernel& k) {
                   const Dim n = k.dim("n");
                   k.grid(1);
                   const auto x = k.input<u8>("x", {4, n});  // rows begin anywhere
                   const auto tile = k.shared<u8>("tile", {4, 16});
                   copy_async(tile.whole(), x.window({4, 16}, {0, 0}));
                   wait_copies();
               }),
               Catch::Contains("copy_test.cpp") && Catch::Contains("vectors of at least 4 bytes"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   const auto x = k.output<f32>("x", {4, 16});
                   copy_async(k.shared<f32>("tile", {4, 16}).whole(), x.window({4, 16}, {0, 0}));
               }),
               Catch::Contains("which is an output and holds nothing yet"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   const auto x = k.input<f32>("x", {4, 16});
                   copy_async(k.shared<f32>("tile", {4, 8}).whole(), x.window({4, 16}, {0, 0}));
               }),
               Catch::Contains("the extents must be equal"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   const auto x = k.input<f32>("x", {4, 16});
                   const auto y = k.output<f32>("y", {4, 16});
                   copy_async(y.window({4, 16}, {0, 0}), x.window({4, 16}, {0, 0}));
               }),
               Catch::Contains("a copy goes from a tensor to a shared tile"));
}

namespace {

constexpr std::int64_t turns = 6, line = 64;

/// Adds 1 to each line of x, which comes by a pipeline; `also` lines further down are set to 0 meanwhile.
Program add_in_place(std::int64_t also) {
    return record("add_in_place", [=](Kernel& k) {
        k.threads(32);
        k.grid(1);
        const auto x = k.inout<f32>("x", {turns, line});
        const auto tile = k.shared<f32>("tile", {3, line});
        k.pipelined(
            turns, {.stages = 3}, [&](Index i, Index slot) { copy_async(tile[slot].whole(), x[i].block({line}, {0})); },
            [&](Index i, Index slot) {
                store(x[i].block({line}, {0}), load(tile[slot].whole()) + 1.0f);
                if (also > 0) store(x.window({1, line}, {i + also, 0}), full({1, line}, Value<f32, 0>(0.0f)));
            });
    });
}

}  // namespace

TEST_CASE("what is copied may be written to once it has come", "[lower]") {
    on_targets(add_in_place(0), [&](const Lowered& kernel) {
        auto x = numbers<float>(turns * line);
        auto expected = x;
        for (float& v : expected) v += 1;
        kernel.run({}, x);
        CHECK(x == expected);
    });
}

TEST_CASE("writing to what a copy under way reads is reported", "[lower]") {
    for (const std::int64_t also : {1, 2}) {
        const Lowered kernel(add_in_place(also), Target::h200());
        auto x = numbers<float>(turns * line);
        CHECK_THROWS_WITH(kernel.run({}, x), Catch::Contains("changes what a copy that is under way reads"));
    }
}

TEST_CASE("threads wait for each other where one writes to what another has copied", "[lower]") {
    const auto barriers = [](const Shape& stored) {
        const Lowered kernel(record("turn_in_place",
                                    [&](Kernel& k) {
                                        k.threads(64);
                                        k.grid(1);
                                        const auto x = k.inout<f32>("x", {64, 64});
                                        const auto tile = k.shared<f32>("tile", {64, 64});
                                        copy_async(tile.whole(), x.block({64, 64}, {0, 0}), {.per_thread = {1, 4}});
                                        wait_copies();
                                        const auto zero = full({64, 64}, Value<f32, 0>(0.0f));
                                        const auto v = load(tile.whole(), {.per_thread = {1, 4}});
                                        store(x.block({64, 64}, {0, 0}), v + 1.0f);
                                        const auto y = k.inout<f32>("y", {64, 64});
                                        const auto w = load(y.block({64, 64}, {0, 0}), {.per_thread = stored});
                                        store(x.block({64, 64}, {0, 0}), w + zero);
                                    }),
                             Target::h200());
        return kernel.count<ir::Barrier>();
    };
    CHECK(barriers({1, 4}) == 0);
    CHECK(barriers({1, 2}) >= 1);
}

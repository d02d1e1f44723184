#include <functional>

#include "tests/lower/run.hpp"

// What warps by themselves share: barriers of the block around k.each_warp, of the warp in it, none where nothing is
// handed over, and what the host executor says where nothing orders two warps.

using namespace tessera;
using namespace tessera::test;

namespace {

/// What the host executor says of a program, on ones.
std::string said(std::shared_ptr<const ir::Program> lowered, std::size_t in = 4096, std::size_t out = 4096) {
    std::vector<float> x(in, 1.0f), y(out);
    host::Settings settings;
    settings.workers = 1;
    try {
        host::Executable(std::move(lowered)).run({{x.data(), y.data()}, {}}, settings);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}
std::string said(const Program& program) {
    return said(std::make_shared<const ir::Program>(lower::lower(program.ir(), Target::h200())));
}

/// The program without its n-th barrier; nothing if it has no such.
std::shared_ptr<const ir::Program> without_barrier(const Program& program, int n) {
    auto lowered = std::make_shared<ir::Program>(lower::lower(program.ir(), Target::h200()));
    const std::function<bool(ir::Body&)> walk = [&](ir::Body& body) {
        for (std::size_t i = 0; i < body.size(); ++i) {
            if (body[i].as<ir::Barrier>() && n-- == 0) return body.erase(body.begin() + static_cast<long>(i)), true;
            if (auto* loop = body[i].as<ir::For>(); loop && walk(loop->body)) return true;
        }
        return false;
    };
    return walk(lowered->body) ? lowered : nullptr;
}

int count_of(const std::string& text, const std::string& part) {
    int n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

/// Rows of x go to shared memory by the whole block, are doubled in reversed order by warps, moved on by warps again,
/// and stored by the block: four times another thread has them.
Program handed_on() {
    return record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {2, 10, 128});
        const auto y = k.output<f32>("y", {2, 10, 128});
        k.threads(128);
        k.grid(1);
        const auto a = k.shared<f32>("a", {10, 128}), b = k.shared<f32>("b", {10, 128});
        k.serial(2, [&](Index turn) {
            store(a.whole(), load(x[turn].window({10, 128}, {0, 0})));
            k.each_warp(10, [&](Index i) { store(b[9 - i].whole(), load(a[i].whole()) * 2.0f); });
            k.each_warp(10, [&](Index i) { store(a[i].whole(), load(b[i].whole()) + 1.0f); });
            store(y[turn].window({10, 128}, {0, 0}), load(a.whole()));
        });
    });
}

/// Each warp turns its row round in a tile of its own.
Program reversed(std::int64_t tiles) {
    return record("kernel", [=](Kernel& k) {
        const auto x = k.input<f32>("x", {11, 64});
        const auto y = k.output<f32>("y", {11, 64});
        k.threads(128);
        k.grid(1);
        const auto line = k.shared<f32>("line", {4, 64});
        k.each_warp(11, [&](Index i) {
            const auto mine = line[i % tiles];
            store(mine.whole(), load(x[i].window({64}, {0})));
            store(y[i].window({64}, {0}), load(mine.window({64}, {cast<i32>(63 - coordinates({64}, axis<0>))})));
        });
    });
}

}  // namespace

TEST_CASE("warps see what the block has stored, the block what they have, and other warps too", "[lower][each_warp]") {
    on_targets(handed_on(), [](const Lowered& kernel) {
        auto x = numbers<float>(2560);
        std::vector<float> y(2560), expected(2560);
        for (std::size_t t = 0; t < 2; ++t)
            for (std::size_t r = 0; r < 10; ++r)
                for (std::size_t c = 0; c < 128; ++c)
                    expected[t * 1280 + (9 - r) * 128 + c] = x[t * 1280 + r * 128 + c] * 2.0f + 1.0f;
        kernel.run({}, x, y);
        CHECK(y == expected);
        // Ahead of the store, of each loop of warps and of the last load.
        CHECK(count_of(kernel.text(), "__syncthreads();") == 4);
    });
}

TEST_CASE("without one of the block's barriers around warps the host executor finds a race", "[lower][each_warp]") {
    int missed = 0;
    while (const auto program = without_barrier(handed_on(), missed)) {
        INFO("without barrier " << missed);
        CHECK_THAT(said(program), Catch::Contains("race on shared memory"));
        ++missed;
    }
    CHECK(missed >= 4);
}

TEST_CASE("a tile for each warp, in which only its lanes wait for each other", "[lower][each_warp]") {
    on_targets(reversed(4), [](const Lowered& kernel) {
        auto x = numbers<float>(704);
        std::vector<float> y(704), expected;
        for (std::size_t r = 0; r < 11; ++r)
            for (std::size_t c = 0; c < 64; ++c) expected.push_back(x[r * 64 + 63 - c]);
        kernel.run({}, x, y);
        CHECK(y == expected);
        CHECK(count_of(kernel.text(), "__syncthreads();") == 0);
        CHECK(count_of(kernel.text(), "__syncwarp();") == 2);
    });
    for (int n = 0; n < 2; ++n) CHECK_THAT(said(without_barrier(reversed(4), n)), Catch::Contains("race on shared"));
    CHECK(without_barrier(reversed(4), 2) == nullptr);
}

TEST_CASE("two warps that meet in a tile are reported, whichever comes first", "[lower][each_warp]") {
    // Four warps and two tiles: warps 0 and 2 write to the same one.
    CHECK_THAT(said(reversed(2)), Catch::Contains("race on shared memory: the store to line[0, ") &&
                                      Catch::Contains("is not ordered after the") &&
                                      Catch::Contains("each_warp_memory_test.cpp"));
    const auto neighbour = [](bool write_last) {
        return record("kernel", [=](Kernel& k) {
            const auto x = k.input<f32>("x", {4, 32});
            const auto y = k.output<f32>("y", {4, 32});
            k.threads(128);
            k.grid(1);
            const auto tile = k.shared<f32>("tile", {5, 32});
            store(tile.window({4, 32}, {0, 0}), load(x.window({4, 32}, {0, 0})));
            store(tile.window({1, 32}, {4, 0}), load(x.window({1, 32}, {0, 0})));
            k.each_warp(4, [&](Index i) {
                // Reads what the next warp writes, or what the one before has written.
                const auto v = load(tile[write_last ? i + 1 : i].whole());
                store(tile[write_last ? i : i + 1].whole(), v + 1.0f);
                store(y[i].window({32}, {0}), v);
            });
        });
    };
    for (const bool write_last : {true, false}) {
        CHECK_THAT(said(neighbour(write_last)), Catch::Contains("race on shared memory"));
        CHECK_THAT(said(neighbour(write_last)), Catch::Contains("nothing orders the warps of k.each_warp"));
    }
}

TEST_CASE("a reader of one warp is remembered behind many of another", "[lower][each_warp]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {32});
        const auto y = k.output<f32>("y", {2, 32});
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {32});
        store(tile.whole(), load(x.window({32}, {0})));
        k.each_warp(2, [&](Index i) {
            const auto v = load(tile.window({32}, {cast<i32>(31 - coordinates({32}, axis<0>))}));
            store(y[i].window({32}, {0}), v);
            k.when(i == 1, [&] { store(tile.whole(), v); });  // warp 0 may not have read yet
        });
    });
    CHECK_THAT(said(program), Catch::Contains("race on shared memory: the store to tile[") &&
                                  Catch::Contains("after the load of 'tile' by thread"));
}

TEST_CASE("warps count in shared memory, and the block reads the sums behind a barrier", "[lower][each_warp]") {
    const auto counted = [](bool read_inside) {
        return record("kernel", [=](Kernel& k) {
            const auto x = k.input<i32>("x", {9, 50});
            const auto y = k.output<i32>("y", {16}, {.align = 4});
            k.threads(96);
            k.grid(1);
            const auto bins = k.shared<i32>("bins", {16});
            k.each_warp(1, [&](Index) { store(bins.whole(), full({16}, Value<i32, 0>(0))); });
            k.each_warp(9, [&](Index i) {
                atomic_add(bins.window({50}, {load(x[i].window({50}, {0}))}), full({50}, Value<i32, 0>(1)));
                if (read_inside) store(y.window({16}, {0}), load(bins.whole()));
            });
            k.each_warp(1, [&](Index) { store(y.window({16}, {0}), load(bins.whole())); });
        });
    };
    on_targets(counted(false), [](const Lowered& kernel) {
        auto x = numbers<std::int32_t>(450, 0, 15);
        std::vector<std::int32_t> y(16), expected(16, 0);
        for (std::int32_t v : x) ++expected[static_cast<std::size_t>(v)];
        kernel.run({}, x, y);
        CHECK(y == expected);
    });
    std::vector<std::int32_t> ones(450, 1), y(16);
    host::Settings settings;
    settings.workers = 1;
    const auto lowered = std::make_shared<const ir::Program>(lower::lower(counted(true).ir(), Target::h200()));
    CHECK_THROWS_WITH(host::Executable(lowered).run({{ones.data(), y.data()}, {}}, settings),
                      Catch::Contains("race on shared memory"));
}

TEST_CASE("tensors that the block and warps by themselves write to are ordered by the block", "[lower][each_warp]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto y = k.inout<f32>("y", {8, 64});
        k.threads(128);
        k.grid(1);
        store(y.window({8, 64}, {0, 0}), load(y.window({8, 64}, {0, 0})) * 2.0f);
        k.each_warp(8, [&](Index i) {
            store(y[i].window({64}, {0}),
                  load(y[i].window({64}, {0})) + reduce_max(load(y[i].window({64}, {0})), axis<0>));
        });
        store(y.window({8, 64}, {0, 0}), load(y.window({8, 64}, {0, 0})) * 4.0f);
    });
    on_targets(program, [](const Lowered& kernel) {
        CHECK(count_of(kernel.text(), "__syncthreads();") >= 2);
        auto y = numbers<float>(512);
        std::vector<float> expected;
        for (std::size_t r = 0; r < 8; ++r) {
            float most = -1e9f;
            for (std::size_t c = 0; c < 64; ++c) most = std::max(most, y[r * 64 + c] * 2.0f);
            for (std::size_t c = 0; c < 64; ++c) expected.push_back((y[r * 64 + c] * 2.0f + most) * 4.0f);
        }
        kernel.run({}, y);
        CHECK(y == expected);
    });
}

TEST_CASE("warps read what the block has copied ahead of them, in a block of three warps too", "[lower][each_warp]") {
    for (const int threads : {96, 128}) {
        const Program program = record("kernel", [=](Kernel& k) {
            const auto x = k.input<f32>("x", {7, 64});
            const auto y = k.output<f32>("y", {7, 64});
            k.threads(threads);
            k.grid(1);
            const auto tile = k.shared<f32>("tile", {7, 64});
            copy_async(tile.whole(), x.window({7, 64}, {0, 0}));
            wait_copies();
            k.each_warp(7, [&](Index i) { store(y[i].window({64}, {0}), load(tile[6 - i].whole())); });
        });
        on_targets(program, [](const Lowered& kernel) {
            auto x = numbers<float>(448);
            std::vector<float> y(448), expected;
            for (std::size_t r = 0; r < 7; ++r)
                for (std::size_t c = 0; c < 64; ++c) expected.push_back(x[(6 - r) * 64 + c]);
            kernel.run({}, x, y);
            CHECK(y == expected);
        });
        CHECK_THAT(said(without_barrier(program, 0)), Catch::Contains("race on shared memory"));
    }
}

TEST_CASE("a pipeline of the block feeds warps by themselves", "[lower][each_warp]") {
    for (const Copies engine : {Copies::vectors, Copies::bulk, Copies::tensor}) {
        const Program program = record("kernel", [=](Kernel& k) {
            const auto x = k.input<f32>("x", {6, 5, 128});
            const auto y = k.output<f32>("y", {6, 5}, {.align = 4});
            k.threads(128);
            k.grid(1);
            const auto tile = k.shared<f32>("tile", {3, 5, 128});
            k.pipelined(
                6, {.stages = 3, .engine = engine},
                [&](Index j, Index slot) { copy_async(tile[slot].whole(), x[j].window({5, 128}, {0, 0})); },
                [&](Index j, Index slot) {
                    k.each_warp(5, [&](Index i) {
                        store(y[j][i], reduce_sum(load(tile[slot][i].whole()), axis<0>).squeeze(axis<0>));
                    });
                });
        });
        on_targets(program, [&](const Lowered& kernel) {
            INFO("engine " << static_cast<int>(engine));
            auto x = numbers<float>(3840);
            std::vector<float> y(30), expected(30, 0.0f);
            for (std::size_t e = 0; e < x.size(); ++e) expected[e / 128] += x[e];
            kernel.run({}, x, y);
            CHECK(y == expected);
        });
    }
}

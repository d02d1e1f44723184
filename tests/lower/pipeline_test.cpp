#include <algorithm>
#include <functional>

#include "tests/lower/run.hpp"

// k.pipelined by vectors, in bulk and by tensor maps: every iteration reads its own copies, no copy is started past the
// last one, one barrier a turn suffices, and whatever is taken away is noticed.

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t rows = 8, cols = 32;

struct Shape2 {
    int stages, threads;
    Copies engine;
};

/// y = Σ over i < min(count, items) of x[i] transposed, by tiles that go through shared memory. Every thread reads what
/// others have copied.
Program sum_of_tiles(const Shape2& shape) {
    return record("kernel", [=](Kernel& k) {
        const Dim items = k.dim("items");
        const auto x = k.input<f32>("x", {items, rows, cols});
        const auto y = k.output<f32>("y", {cols, rows}, {.align = 4});
        const Index count = k.scalar<i64>("count");
        k.threads(shape.threads);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {shape.stages, rows, cols});
        auto sum = k.variable(full({cols, rows}, Value<f32, 0>(0.0f)));
        k.pipelined(
            count, {.stages = shape.stages, .engine = shape.engine},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x[i].window({rows, cols}, {0, 0})); },
            [&](Index, Index slot) {
                sum = sum.get() + load(tile[slot].whole(), {.per_thread = {1, 1}}).permute<1, 0>();
            });
        store(y.window({cols, rows}, {0, 0}), sum.get());
    });
}

std::vector<float> transposed_sum(const std::vector<float>& x, std::size_t count) {
    std::vector<float> y(rows * cols, 0.0f);
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < cols; ++c) y[c * rows + r] += x[(i * rows + r) * cols + c];
    return y;
}

/// What is said when a lowered program runs that `change` has been at; empty if nothing.
std::string said_without(const Program& program, const std::function<bool(ir::Body&, std::size_t)>& change) {
    ir::Program lowered = lower::lower(program.ir(), Target::h200());
    int changes = 0;
    const std::function<void(ir::Body&)> walk = [&](ir::Body& body) {
        for (std::size_t i = 0; i < body.size(); ++i) {
            if (auto* loop = body[i].as<ir::For>()) walk(loop->body);
            if (change(body, i)) ++changes, --i;
        }
    };
    walk(lowered.body);
    REQUIRE(changes > 0);
    std::vector<float> x(6 * rows * cols, 1.0f), y(rows * cols);
    host::Settings settings;
    settings.workers = 1;
    try {
        host::Executable(std::make_shared<const ir::Program>(std::move(lowered)))
            .run({{x.data(), y.data()}, {6, 6}}, settings);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

template <class Kind>
bool erase(ir::Body& body, std::size_t i) {
    if (!body[i].as<Kind>()) return false;
    body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
}

std::string refused(const std::function<void(Kernel&)>& body) {
    try {
        Lowered(record("kernel", body), Target::h200());
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("every iteration of a pipeline reads its own copies", "[lower][pipeline]") {
    for (const Copies engine : {Copies::vectors, Copies::bulk, Copies::tensor})
        for (const int stages : {2, 3, 5})
            for (const int threads : {32, 128})
                on_targets(sum_of_tiles({stages, threads, engine}), [&](const Lowered& kernel) {
                    INFO(stages << " stages, " << threads << " threads, engine " << static_cast<int>(engine));
                    const bool bulk = kernel.text().find("cp.async.bulk.shared::cluster") != std::string::npos;
                    const bool tensor =
                        kernel.text().find("cp.async.bulk.tensor.3d.shared::cluster") != std::string::npos;
                    CHECK(bulk == (engine == Copies::bulk));
                    CHECK(tensor == (engine == Copies::tensor));
                    for (const std::uint64_t count : {0u, 1u, 2u, 3u, 4u, 7u}) {
                        constexpr std::size_t items = 7;
                        auto x = numbers<float>(items * rows * cols);
                        const auto expected = transposed_sum(x, count);
                        std::vector<float> y(rows * cols, -1.0f);
                        kernel.run({items, count}, x, y);
                        CHECK(y == expected);
                    }
                });
}

TEST_CASE("a turn of a pipeline needs one barrier, of its own copies none", "[lower][pipeline]") {
    const auto barriers_in_loop = [](const Program& program) {
        int n = -1;
        const Lowered kernel(program, Target::h200());
        for (const ir::Statement& s : kernel.program().body)
            if (const auto* loop = s.as<ir::For>(); loop && !loop->when && !loop->unrolled) {
                REQUIRE(n == -1);
                n = 0;
                ir::for_each_statement(loop->body,
                                       [&](const ir::Statement& t) { n += t.as<ir::Barrier>() != nullptr; });
            }
        return n;
    };
    for (const Copies engine : {Copies::vectors, Copies::bulk, Copies::tensor})
        CHECK(barriers_in_loop(sum_of_tiles({3, 128, engine})) == 1);
    const auto own = record("kernel", [](Kernel& k) {
        const Dim items = k.dim("items");
        const auto x = k.input<bf16>("x", {items, 1024});
        const auto y = k.output<bf16>("y", {items, 1024});
        k.threads(256);
        k.grid(1);
        const auto tile = k.shared<bf16>("tile", {3, 1024});
        k.pipelined(
            items, {.stages = 3},
            [&](Index i, Index slot) {
                copy_async(tile[slot].block({1024}, {0}), x[i].block({1024}, {0}), {.per_thread = {4}});
            },
            [&](Index i, Index slot) {
                store(y[i].block({1024}, {0}), load(tile[slot].block({1024}, {0}), {.per_thread = {4}}));
            });
    });
    CHECK(barriers_in_loop(own) == 0);
    on_targets(own, [](const Lowered& kernel) {
        CHECK(kernel.text().find("copy_8_async") != std::string::npos);
        auto x = numbers<std::uint16_t>(5 * 1024, 0, 60000);
        std::vector<std::uint16_t> y(x.size());
        kernel.run({5}, x, y);
        CHECK(x == y);
    });
}

TEST_CASE("a count that is a number starts no copy past it", "[lower][pipeline]") {
    for (const Copies engine : {Copies::vectors, Copies::bulk, Copies::tensor})
        for (const std::int64_t count : {0, 1, 2, 9}) {
            const auto program = record("kernel", [=](Kernel& k) {
                const auto x = k.input<f32>("x", {9, 64});
                const auto y = k.output<f32>("y", {64});
                k.threads(64);
                k.grid(1);
                const auto tile = k.shared<f32>("tile", {4, 1, 64});
                auto sum = k.variable(full({1, 64}, Value<f32, 0>(0.0f)));
                k.pipelined(
                    count, {.stages = 4, .engine = engine},
                    [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.window({1, 64}, {i, 0})); },
                    [&](Index, Index slot) { sum = sum.get() + load(tile[slot].whole()); });
                store(y.window({64}, {0}), sum.get().squeeze(axis<0>));
            });
            on_targets(program, [&](const Lowered& kernel) {
                auto x = numbers<float>(9 * 64);
                std::vector<float> y(64, -1.0f), expected(64, 0.0f);
                for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
                    for (std::size_t c = 0; c < 64; ++c) expected[c] += x[i * 64 + c];
                kernel.run({}, x, y);
                CHECK(y == expected);
            });
        }
}

TEST_CASE("rows of a bulk copy that are outside are left as they were, and counted by nobody", "[lower][pipeline]") {
    const auto program = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<f32>("x", {n, 64});
        const auto y = k.output<f32>("y", {n, 64});
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 4, 64});
        k.pipelined(
            ceil_div(n, 4), {.stages = 2, .engine = Copies::bulk},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.block({4, 64}, {i, 0})); },
            [&](Index i, Index slot) {
                for (int r = 0; r < 4; ++r)
                    k.when(i * 4 + r < n, [&] { store(y[i * 4 + r].block({64}, {0}), load(tile[slot][r].whole())); });
            });
    });
    on_targets(program, [](const Lowered& kernel) {
        for (const std::uint64_t n : {1u, 3u, 4u, 9u, 14u}) {
            auto x = numbers<float>(static_cast<std::int64_t>(n) * 64);
            std::vector<float> y(x.size());
            kernel.run({n}, x, y);
            CHECK(x == y);
        }
    });
}

TEST_CASE("a pipeline that lacks its wait, its barrier or its arrival is told so", "[lower][pipeline]") {
    const Program vectors = sum_of_tiles({3, 128, Copies::vectors}), bulk = sum_of_tiles({3, 128, Copies::bulk}),
                  tensor = sum_of_tiles({3, 128, Copies::tensor});
    for (const Program* p : {&vectors, &bulk, &tensor}) {
        CHECK_THAT(
            said_without(*p, erase<ir::WaitCopies>),
            Catch::Contains("meets a copy that is under way, started at") && Catch::Contains("pipeline_test.cpp"));
        CHECK_THAT(said_without(*p, erase<ir::Barrier>), Catch::Contains("race on shared memory"));
    }
    // One group more stays pending.
    CHECK_THAT(said_without(vectors,
                            [](ir::Body& body, std::size_t i) {
                                auto* wait = body[i].as<ir::WaitCopies>();
                                if (!wait || wait->pending != 1) return false;
                                wait->pending = 2;
                                return true;
                            }),
               Catch::Contains("meets a copy that is under way"));
    for (const Program* p : {&bulk, &tensor}) {
        CHECK_THAT(
            said_without(*p, erase<ir::CommitCopies>),
            Catch::Contains("the wait for full[0] to complete its phase of parity 0 never ends: nothing arrives") &&
                Catch::Contains("pipeline_test.cpp"));
        CHECK_THAT(said_without(*p, erase<ir::InitMbarriers>), Catch::Contains("that nothing has written"));
    }
    // A slot that is still read: the copies go one slot too far back.
    const auto early = record("kernel", [](Kernel& k) {
        const auto x = k.input<f32>("x", {6, 8, 32});
        const auto y = k.output<f32>("y", {8, 32});
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {4, 8, 32});
        auto sum = k.variable(full({8, 32}, Value<f32, 0>(0.0f)));
        k.pipelined(
            6, {.stages = 3}, [&](Index i, Index) { copy_async(tile[i % 2].whole(), x[i].window({8, 32}, {0, 0})); },
            [&](Index i, Index) { sum = sum.get() + load(tile[i % 2].whole()); });
        store(y.window({8, 32}, {0, 0}), sum.get());
    });
    std::vector<float> x(6 * 256), y(256);
    CHECK_THROWS_WITH(Lowered(early, Target::h200()).run_at({x.data(), y.data()}, {}),
                      Catch::Contains("meets a copy that is under way"));
}

TEST_CASE("pipelines that cannot be are refused on their line", "[lower][pipeline]") {
    const auto with = [](int stages, Copies engine, std::int64_t first, const auto& issue) {
        return refused([&](Kernel& k) {
            k.grid(1);
            const auto x = k.input<f32>("x", {8, 16});
            const auto y = k.output<f32>("y", {8, 16});
            const auto tile = k.shared<f32>("tile", {first, 16});
            k.pipelined(
                8, {.stages = stages, .engine = engine}, [&](Index i, Index slot) { issue(x, y, tile, i, slot); },
                [&](Index, Index) {});
        });
    };
    const auto plain = [](auto& x, auto&, auto& tile, Index i, Index slot) {
        copy_async(tile[slot].whole(), x[i].block({16}, {0}));
    };
    CHECK(with(2, Copies::vectors, 2, plain) == "");
    CHECK_THAT(with(1, Copies::vectors, 2, plain), Catch::Contains("a pipeline of 1 stages"));
    CHECK_THAT(with(4, Copies::vectors, 3, plain),
               Catch::Contains("a copy of a pipeline of 4 stages goes to tile [3, 16]") &&
                   Catch::Contains("pipeline_test.cpp"));
    CHECK_THAT(with(2, Copies::vectors, 2,
                    [](auto& x, auto&, auto& tile, Index i, Index) {
                        copy_async(tile.window({1, 16}, {0, 0}), x.window({1, 16}, {i, 0}));
                    }),
               Catch::Contains("picked by the slot: tile[slot]"));
    CHECK_THAT(with(2, Copies::vectors, 2,
                    [](auto& x, auto& y, auto&, Index i, Index) {
                        store(y[i].block({16}, {0}), load(x[i].block({16}, {0})));
                    }),
               Catch::Contains("the first function of k.pipelined does more than start copies"));
    CHECK_THAT(with(2, Copies::bulk, 2,
                    [](auto& x, auto&, auto& tile, Index i, Index slot) {
                        copy_async(tile[slot].window({8}, {0}), x[i].window({8}, {i}));
                    }),
               Catch::Contains("a bulk copy moves whole rows of a piece") &&
                   Catch::Contains("x is read in vectors of 1 f32 only"));
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   const auto x = k.input<f32>("x", {8, 16});
                   const auto tile = k.shared<f32>("tile", {2, 16});
                   k.serial(2, [&](Index) {
                       k.pipelined(
                           4, {.stages = 2, .engine = Copies::bulk},
                           [&](Index i, Index slot) { copy_async(tile[slot].whole(), x[i].block({16}, {0})); },
                           [](Index, Index) {});
                   });
               }),
               Catch::Contains("k.pipelined with .engine = Copies::bulk stands in a loop or condition, where only a "
                               "pipeline by vectors may"));
}

TEST_CASE("a bulk copy of rows that it cannot move says which and what would help", "[lower][pipeline]") {
    const auto with = [](auto columns, std::int64_t row, const SwizzleOptions& swizzle, const auto& piece) {
        return refused([&](Kernel& k) {
            k.grid(1);
            const auto x = k.input<f32>("x", {8, columns(k)});
            const auto tile = k.shared<f32>("tile", {2, row}, swizzle);
            k.pipelined(
                8, {.stages = 2, .engine = Copies::bulk},
                [&](Index i, Index slot) { copy_async(tile[slot].whole(), piece(x, i, row)); }, [](Index, Index) {});
        });
    };
    const auto number = [](std::int64_t n) { return [n](Kernel&) { return Extent(n); }; };
    const auto dim = [](Kernel& k) { return Extent(k.dim("n", multiple_of(16))); };
    const auto block = [](const auto& x, Index i, std::int64_t row) { return x[i].block({row}, {i}); };
    const auto window = [](const auto& x, Index i, std::int64_t row) { return x[i].window({row}, {i * 512}); };
    CHECK(with(number(2048), 1024, {}, block) == "");
    CHECK_THAT(with(number(2000), 1024, {}, block),
               Catch::Contains("a row of 1024 elements does not divide x's extent 2000; choose a tile that does; or "
                               "take Copies::tensor or Copies::vectors, which mind the edge") &&
                   Catch::Contains("pipeline_test.cpp"));
    CHECK_THAT(
        with(dim, 1024, {}, block),
        Catch::Contains("x's extent along axis 1 is known only at launch, and a row of 1024 elements must divide "
                        "it; record that with multiple_of(1024) of k.dim, or give the extent as a number"));
    CHECK_THAT(with(number(2048), 1024, {}, window),
               Catch::Contains("the offset along axis 1 of x is not known to be a multiple of the row's 1024"));
    CHECK_THAT(with(number(2001), 1024, {}, block), Catch::Contains("x is read in vectors of 1 f32 only"));
    CHECK_THAT(with(number(2048), 32, {.bits = 3, .base = 2, .shift = 3}, block),
               Catch::Contains("tile has a swizzle, and these rows lie side by side; declare it without one, or take "
                               "Copies::tensor, which writes operand_swizzle"));
    // A swizzle of single elements would make vectors short: it is named all the same.
    CHECK_THAT(with(number(2048), 32, {.bits = 3, .base = 0, .shift = 5}, block),
               Catch::Contains("tile has a swizzle") && !Catch::Contains("vectors of"));
    CHECK_THAT(with(number(2048), 6, {}, block), Catch::Contains("a row of 6 f32 is no multiple of 16 bytes"));
}

TEST_CASE("a bulk copy knows what numbers of the launch are multiples of", "[lower][pipeline]") {
    // Rows of 96 elements: no power of two.
    const auto program = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n", multiple_of(192)), from = k.dim("from", multiple_of(288));
        const auto x = k.input<f32>("x", {8, n});
        const auto moved = k.input<f32>("moved", {from});
        const auto y = k.output<f32>("y", {8, 96});
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 96});
        (void)moved;
        k.pipelined(
            8, {.stages = 2, .engine = Copies::bulk},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x[i].window({96}, {from + i * 96})); },
            [&](Index i, Index slot) { store(y[i].block({96}, {0}), load(tile[slot].whole())); });
    });
    on_targets(program, [](const Lowered& kernel) {
        const std::int64_t n = 6 * 192, from = 288;
        auto x = numbers<float>(8 * n);
        std::vector<float> moved(static_cast<std::size_t>(from)), y(8 * 96);
        kernel.run({static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(from)}, x, moved, y);
        std::vector<float> expected;
        for (std::int64_t i = 0; i < 8; ++i)
            for (std::int64_t j = 0; j < 96; ++j)
                expected.push_back(x[static_cast<std::size_t>(i * n + from + i * 96 + j)]);
        CHECK(y == expected);
    });
}

TEST_CASE("a pipeline inside the issue function of another is refused", "[lower][pipeline]") {
    CHECK_THAT(refused([](Kernel& k) {
                   k.grid(1);
                   const auto x = k.input<f32>("x", {8, rows, cols});
                   const auto tile = k.shared<f32>("tile", {2, rows, cols});
                   const auto issue = [&](Index i, Index slot) {
                       copy_async(tile[slot].whole(), x[i].window({rows, cols}, {0, 0}));
                   };
                   k.pipelined(
                       8, {.stages = 2},
                       [&](Index, Index) { k.pipelined(8, {.stages = 2}, issue, [](Index, Index) {}); },
                       [](Index, Index) {});
               }),
               Catch::Contains("a pipeline inside the issue function of another"));
}

#include <functional>

#include "tests/lower/run.hpp"

// Tensors that several roles touch: what is refused while recording, what the host executor sees, what is right.

using namespace tessera;
using namespace tessera::test;

namespace {

std::string refused(const std::function<void(Kernel&)>& body) {
    try {
        record("kernel", [&](Kernel& k) { body(k); });
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

/// Two roles of two warps store 32 numbers of `y` from these offsets on, in each turn of `turns`.
using From = std::function<Index(Kernel&, Index block, Index turn)>;
std::string both_store(const From& a, const From& b, std::int64_t turns = 1) {
    return refused([&](Kernel& k) {
        const Dim n = k.dim("n");
        const auto y = k.output<f32>("y", {n});
        const Index block = k.grid(4).x;
        const auto role = [&](const From& from, float value) {
            return [&, value] {
                k.serial(turns, [&](Index i) {
                    store(y.window({32}, {from(k, block, i)}), full({32}, Value<f32, 0>(value)));
                });
            };
        };
        k.roles({.name = "one", .warps = 2}, role(a, 1.0f), {.name = "two", .warps = 2}, role(b, 2.0f));
    });
}

std::string said(const Program& program, std::vector<void*> bases, std::vector<std::uint64_t> scalars) {
    host::Settings settings;
    settings.workers = 1;
    try {
        host::Executable(std::make_shared<const ir::Program>(lower::lower(program.ir(), Target::h200())))
            .run({std::move(bases), std::move(scalars)}, settings);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("roles that surely store to the same elements are refused", "[lower][roles]") {
    const From start = [](Kernel&, Index block, Index) { return block * 64; };
    const auto at = [](std::int64_t offset) {
        return [=](Kernel&, Index block, Index) { return block * 64 + offset; };
    };
    const auto check_refused = [](const std::string& text) {
        CHECK_THAT(text, Catch::Contains("roles one and two store to the same elements of tensor y") &&
                             Catch::Contains("roles_tensors_test.cpp:"));
    };
    check_refused(both_store(start, start));
    check_refused(both_store(start, at(31)));
    check_refused(both_store(at(31), start));
    check_refused(both_store(start, [](Kernel&, Index block, Index) { return 3 + (block + 1) * 64 - 64; }));
    const From turns = [](Kernel&, Index block, Index i) { return block * 640 + i * 32; };
    check_refused(both_store(turns, turns, 10));
    CHECK(both_store(turns, turns, 0) == "");
    // Apart, or not known to meet.
    CHECK(both_store(start, at(32)) == "");
    CHECK(both_store(at(-32), start) == "");
    CHECK(both_store(start, [](Kernel&, Index block, Index) { return block * 32; }) == "");
}

TEST_CASE("what lies past the end of a tensor and what stands in a condition does not meet", "[lower][roles]") {
    const auto two = [](std::int64_t extent,
                        const std::function<void(Kernel&, Index, const std::function<void()>&)>& how) {
        return refused([&](Kernel& k) {
            const auto y = k.output<f32>("y", {extent});
            const Index block = k.grid(2).x;
            const auto role = [&](std::int64_t from) {
                return [&, from] {
                    how(k, block, [&] { store(y.window({64}, {from}), full({64}, Value<f32, 0>(1.0f))); });
                };
            };
            k.roles({.warps = 1}, role(0), {.warps = 1}, role(32));
        });
    };
    const auto always = [](Kernel&, Index, const std::function<void()>& body) { body(); };
    CHECK_THAT(two(33, always), Catch::Contains("roles role_1 and role_2 store to the same elements of tensor y"));
    CHECK(two(32, always) == "");
    CHECK(two(96, [](Kernel& k, Index block, const auto& body) { k.when(block == 0, body); }) == "");
}

TEST_CASE("stores of two roles that meet by their data are told on the host", "[lower][roles]") {
    // Role `two` stores from a loaded offset on.
    const Program program = record("kernel", [](Kernel& k) {
        const auto from = k.input<i64>("from", {1});
        const auto y = k.output<f32>("y", {128});
        k.grid(1);
        k.roles(
            {.name = "one", .warps = 2}, [&] { store(y.window({64}, {0}), full({64}, Value<f32, 0>(1.0f))); },
            {.name = "two", .warps = 2},
            [&] { store(y.window({64}, {load(from[0])}), full({64}, Value<f32, 0>(2.0f))); });
    });
    std::vector<float> y(128);
    for (std::int64_t from : {0, 1, 63, 64, -64}) {
        INFO("from " << from);
        const std::string text = said(program, {&from, y.data()}, {});
        if (from < 0 || from >= 64)
            CHECK(text == "");
        else
            CHECK_THAT(text, Catch::Contains("the store to y[") && Catch::Contains("by role two meets the store of") &&
                                 Catch::Contains("role one at ") && Catch::Contains("roles_tensors_test.cpp:"));
    }
}

TEST_CASE("a ring between two roles orders their stores", "[lower][roles]") {
    // The filler stores last, once the user has given the slot back; or, without waiting, at once.
    for (const bool waits : {true, false}) {
        const Program program = record("kernel", [=](Kernel& k) {
            const auto x = k.input<f32>("x", {2, 32});
            const auto y = k.output<f32>("y", {32});
            k.grid(1);
            const auto tile = k.shared<f32>("tile", {1, 32});
            const auto ring = k.ring({.stages = 1});
            const auto fill = [&](std::int64_t i) {
                ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[i].block({32}, {0})); });
            };
            k.roles(
                {.name = "filler", .warps = 1},
                [&] {
                    fill(0);
                    if (waits) fill(1);
                    store(y.block({32}, {0}), full({32}, Value<f32, 0>(7.0f)));
                    if (!waits) fill(1);
                },
                {.name = "user", .warps = 1},
                [&] {
                    ring.use([&](Index slot) { store(y.block({32}, {0}), load(tile[slot].whole())); });
                    ring.use([&](Index) {});
                });
        });
        std::vector<float> x(64, 1.0f), y(32);
        const std::string text = said(program, {x.data(), y.data()}, {});
        INFO("waits: " << waits);
        if (waits) {
            CHECK(text == "");
            CHECK(y == std::vector<float>(32, 7.0f));
        } else {
            CHECK_THAT(text, Catch::Contains("and nothing orders the two"));
        }
    }
}

TEST_CASE("roles add to one tensor, and nothing else touches it", "[lower][roles]") {
    const auto kernel = [](const std::function<void(Kernel&, const Global<i32, 1>&)>& other) {
        return record("kernel", [&](Kernel& k) {
            const auto sum = k.inout<i32>("sum", {64});
            k.grid(3);
            const auto add = [&](std::int32_t value) {
                return [&, value] { atomic_add(sum.block({64}, {0}), full({64}, Value<i32, 0>(value))); };
            };
            k.roles({.name = "one", .warps = 1}, add(1), {.name = "two", .warps = 2}, add(10),
                    {.name = "three", .warps = 1}, [&] { other(k, sum); });
        });
    };
    on_targets(kernel([](Kernel&, const auto&) {}), [](const Lowered& lowered) {
        std::vector<std::int32_t> sum(64, 100);
        lowered.run({}, sum);
        CHECK(sum == std::vector<std::int32_t>(64, 100 + 3 * 11));
    });
    const auto said_of = [&](const std::function<void(Kernel&, const Global<i32, 1>&)>& other) {
        try {
            kernel(other);
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK_THAT(said_of([](Kernel&, const auto& sum) { store(sum.block({64}, {0}), full({64}, Value<i32, 0>(1))); }),
               Catch::Contains("tensor sum is written to by role three and added to by role one"));
    CHECK_THAT(said_of([](Kernel&, const auto& sum) { load(sum.block({64}, {0})); }),
               Catch::Contains("tensor sum is written to by role one and read by role three"));
}

TEST_CASE("the threads of a block are said once", "[lower][roles]") {
    const auto with = [](const std::function<void(Kernel&)>& before, const std::function<void(Kernel&)>& after) {
        return refused([&](Kernel& k) {
            k.grid(1);
            before(k);
            k.roles({.warps = 2}, [] {}, {.warps = 2}, [] {});
            after(k);
        });
    };
    const auto threads = [](int n) { return [n](Kernel& k) { k.threads(n); }; };
    const auto nothing = [](Kernel&) {};
    CHECK(with(nothing, nothing) == "");
    CHECK(with(threads(128), nothing) == "");
    CHECK_THAT(with(threads(256), nothing),
               Catch::Contains("k.threads(256) stands ahead of k.roles with 4 warps, which are 128 threads") &&
                   Catch::Contains("give the roles 8 warps"));
    CHECK_THAT(with(nothing, threads(128)), Catch::Contains("k.threads after k.roles"));
    CHECK_THAT(refused([](Kernel& k) { k.grid(1), k.threads(64), k.threads(128); }),
               Catch::Contains("k.threads(128) after k.threads(64)"));
    CHECK(refused([](Kernel& k) { k.grid(1), k.threads(64), k.threads(64, 2); }) == "");
}

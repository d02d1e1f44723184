#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "dsl/host/executor.hpp"
#include "dsl/lower/lower.hpp"
#include "tests/support/programs/evaluator.hpp"

// Operations of the front end from the writer's line to the host executor, against results worked by hand.

namespace {

using namespace tessera;

void run(const Program& p, const std::vector<void*>& tensors, const std::vector<std::uint64_t>& scalars) {
    const auto lowered = std::make_shared<const ir::Program>(lower::lower(p.ir(), Target::h200()));
    host::Executable(lowered).run({tensors, scalars}, {.check = true, .workers = 3});
}

/// For every key in [0, 4): how many there are, added to counts; by one tile per block.
Program histogram() {
    return record("histogram", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto keys = k.input<i32>("keys", {n}, {.align = 4});
        const auto counts = k.inout<i64>("counts", {4});
        k.threads(64);
        const auto [m] = k.grid(ceil_div(n, 100));
        const auto v = load(keys.block({100}, {m}), -1).unsqueeze(axis<0>);
        const auto wanted = cast<i32>(coordinates({4, 1}, axis<0>));
        const auto found = reduce_sum(cast<i32>(wanted == v), axis<1>).squeeze(axis<1>);  // [4]
        atomic_add(counts.window({4}, {0}), cast<i64>(found));
    });
}

}  // namespace

TEST_CASE("atomic_add counts every element once, whatever copies threads hold", "[front]") {
    std::vector<std::int32_t> keys;
    for (int i = 0; i < 1234; ++i) keys.push_back(i % 7);
    std::vector<std::int64_t> counts{10, 0, 0, -5}, evaluated = counts;
    run(histogram(), {keys.data(), counts.data()}, {1234});
    CHECK(counts == std::vector<std::int64_t>{187, 177, 176, 171});
    test::evaluate(histogram().ir(), {keys.data(), evaluated.data()}, {1234});
    CHECK(evaluated == counts);
}

TEST_CASE("atomic_add does not touch what lies outside", "[front]") {
    const Program p = record("edges", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto y = k.inout<u32>("y", {n});
        const auto at = k.scalar<i64>("at");
        k.grid(3);
        atomic_add(y.window({4}, {at}), full({4}, Value<u32, 0>(1u)));
        atomic_add(y[at], Value<u32, 0>(10u));
    });
    for (const std::int64_t at : {-2, 0, 3, 5, 9}) {
        std::vector<std::uint32_t> y(8, 0), expected(8, 0);
        for (std::int64_t i = 0; i < 5; ++i) {
            if (at + i >= 0 && at + i < 5) expected[static_cast<std::size_t>(at + i)] += i < 4 ? 3 : 0;
        }
        if (at >= 0 && at < 5) expected[static_cast<std::size_t>(at)] += 30;
        run(p, {y.data()}, {5, static_cast<std::uint64_t>(at)});
        CHECK(y == expected);
    }
}

TEST_CASE("atomic_add refuses tensors that are not inout and wrong extents", "[front]") {
    const auto refused = [](auto&& body) {
        try {
            record("k", [&](Kernel& k) {
                const auto out = k.output<i32>("out", {4});
                const auto sums = k.inout<i32>("sums", {4});
                const auto tile = k.shared<i32>("tile", {4});
                k.grid(1);
                body(out, sums, tile);
            });
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const auto ones = [](std::int64_t n) { return full({n}, Value<i32, 0>(1)); };
    CHECK_THAT(refused([&](auto& out, auto&, auto&) { atomic_add(out.window({4}, {0}), ones(4)); }),
               Catch::Contains("k.inout"));
    CHECK_THAT(refused([&](auto&, auto&, auto& tile) { atomic_add(tile.whole(), ones(3)); }),
               Catch::Contains("extents must be equal"));
    CHECK(refused([&](auto&, auto&, auto& tile) { atomic_add(tile.whole(), ones(4)); }).empty());
    CHECK_THAT(refused([&](auto&, auto& sums, auto&) { atomic_add(sums.window({4}, {0}), ones(3)); }),
               Catch::Contains("extents must be equal"));
    CHECK(refused([&](auto&, auto& sums, auto&) { atomic_add(sums.window({4}, {0}), ones(4)); }).empty());
}

TEST_CASE("exp, fma and divide_bounded", "[front]") {
    const Program p = record("functions", [](Kernel& k) {
        const auto x = k.input<f32>("x", {3, 8});
        const auto y = k.output<f32>("y", {3, 8});
        k.grid(1);
        const auto row = [&](std::int64_t i) { return load(x[i].window({8}, {0})); };
        const auto put = [&](std::int64_t i, const Value<f32, 1>& v) { store(y[i].window({8}, {0}), v); };
        const auto a = row(0), b = row(1), c = row(2);
        put(0, exp(a));
        put(1, fma(a, b, c));
        put(2, divide_bounded(a, b));
    });
    const float ulp = 0x1p-23f;
    std::vector<float> x = {0, 1, -1, 88, -110, 1 + ulp, -0.0f, 3,        // a
                            1, 3, 7,  9,  11,   1 - ulp, 5,     0x1p99f,  // b
                            1, 2, 3,  4,  5,    -1,      6,     0},
                       y(24, -1);
    run(p, {x.data(), y.data()}, {});
    CHECK(y[0] == 1.0f);
    CHECK(y[1] == 2.71828182845904523536f);
    CHECK(y[2] == 0.36787944117144232160f);
    CHECK(y[3] == 1.6516362549940018555e38f);
    CHECK(y[4] == 0.0f);
    CHECK(y[8 + 5] == -0x1p-46f);  // (1 + u)(1 − u) − 1: the product is not rounded
    CHECK(y[8 + 3] == 88 * 9 + 4);
    CHECK(y[16 + 1] == 1.0f / 3.0f);
    CHECK(y[16 + 4] == -10.0f);
    CHECK(y[16 + 6] == 0.0f);
    CHECK(std::signbit(y[16 + 6]));
    CHECK(y[16 + 7] == 3 * 0x1p-99f);
}

TEST_CASE("cast_bounded gives the codes of cast within its bounds, and is the caller's past them", "[front]") {
    const Program p = record("codes", [](Kernel& k) {
        const auto x = k.input<f32>("x", {24});
        const auto y = k.output<e2m1>("y", {3, 24});
        k.grid(1);
        const auto v = load(x.window({24}, {0}));
        store(y[0].window({24}, {0}), cast_bounded<e2m1>(v));
        store(y[1].window({24}, {0}), cast_bounded<e2m1>(cast<bf16>(v)));
        store(y[2].window({24}, {0}), cast_bounded<e2m1>(cast<f16>(v)));
    });
    const float nan = std::nanf("");
    std::vector<float> x = {0,     -0.0f, 0.25f, -0.25f, 0.5f, -0.75f, 1,  -1.25f, 1.5f,   -1.75f, 2,   -2.5f,
                            -2.5f, 3,     -3.5f, 4,      -5,   5.5f,   -6, 6,      -6.75f, 6.75f,  nan, -nan};
    const std::uint8_t codes[] = {0x80, 0x80, 0xa1, 0xa2, 0xc3, 0xc4, 0x5c, 0x6e, 0x7e, 0x7f, 0x7f, 0x77};
    std::vector<std::uint8_t> y(36, 0x55), expected;
    for (int row = 0; row < 3; ++row) expected.insert(expected.end(), std::begin(codes), std::end(codes));
    run(p, {x.data(), y.data()}, {});
    CHECK(y == expected);
    x[5] = -7;
    CHECK_THROWS_WITH(run(p, {x.data(), y.data()}, {}),
                      Catch::Contains("the bounded cast of -7 to e2m1 leaves its range"));
    x[5] = 1.0f + 0x1p-7f;
    run(p, {x.data(), y.data()}, {});
    CHECK((y[26] >> 4) == 2);
    x[5] = 1.0f + 0x1p-8f;  // nine bits: as bf16 it is 1
    CHECK_THROWS_WITH(run(p, {x.data(), y.data()}, {}), Catch::Contains("the bounded cast of 1.00390625 to e2m1") &&
                                                            Catch::Contains("eight significant"));
}

TEST_CASE("one element of a tensor as a number, gathered through another", "[front]") {
    const Program p = record("gather", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto map = k.input<i32>("map", {n}, {.align = 4});
        const auto x = k.input<f32>("x", {3, 64});
        const auto y = k.output<f32>("y", {n, 64});
        const auto [m] = k.grid(n);
        const Index row = cast<i64>(load(map[m]));
        store(y.window({1, 64}, {m, 0}), load(x.window({1, 64}, {row, 0}), -1.0f));
    });
    const std::vector<std::int32_t> map{2, -1, 0, 3, 2};
    std::vector<float> x(3 * 64), y(5 * 64, -7);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    run(p, {const_cast<std::int32_t*>(map.data()), x.data(), y.data()}, {5});
    for (std::size_t r = 0; r < map.size(); ++r)
        for (std::size_t j = 0; j < 64; ++j) {
            const bool inside = map[r] >= 0 && map[r] < 3;
            CHECK(y[r * 64 + j] == (inside ? static_cast<float>(map[r] * 64 + static_cast<int>(j)) : -1.0f));
        }
}

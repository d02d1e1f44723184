#include "tests/lower/run.hpp"

// Programs whose written-out form would be far longer than themselves.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("numbers that double from line to line are written once each", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<i32>("x", {n});
        const auto y = k.output<i64>("y", {n});
        const auto z = k.output<i32>("z", {n});
        const auto [m] = k.grid(n);
        Index hash = m * 7 + 1;
        for (int i = 0; i < 40; ++i) hash = (hash ^ (hash >> 7)) * 1099511628211 + hash;  // 3^40 terms written out
        const Index id = (hash % n + n) % n;
        store(y[m], hash);
        store(z.window({1}, {m}), load(x.window({1}, {id})));
        k.serial(hash % 2, [&](Index) {});
    });
    on_targets(p, [](const Lowered& kernel) {
        CHECK(kernel.text().size() < 20'000);
        auto x = numbers<std::int32_t>(50);
        std::vector<std::int64_t> y(50);
        std::vector<std::int32_t> z(50);
        kernel.run({50}, x, y, z);
        for (std::int64_t m = 0; m < 50; ++m) {
            std::int64_t hash = m * 7 + 1;
            for (int i = 0; i < 40; ++i)
                hash = static_cast<std::int64_t>(static_cast<std::uint64_t>(hash ^ (hash >> 7)) * 1099511628211u +
                                                 static_cast<std::uint64_t>(hash));
            REQUIRE(y[static_cast<std::size_t>(m)] == hash);
            REQUIRE(z[static_cast<std::size_t>(m)] == x[static_cast<std::size_t>((hash % 50 + 50) % 50)]);
        }
    });
}

TEST_CASE("chains of thousands of operations", "[lower]") {
    constexpr int length = 5000;
    const Program p = record("kernel", [](Kernel& k) {
        const auto factor = k.scalar<i32>("factor");
        const auto x = k.input<i32>("x", {64});
        const auto y = k.output<i32>("y", {64});
        const auto [m] = k.grid(1);
        auto v = load(x.window({64}, {0}));
        auto f = factor + 0;
        Index q = m + 1;
        for (int i = 0; i < length; ++i) {
            v = v * 3 + 1;
            f = f * 5 + 2;
            q = q * 3 - 1;
        }
        store(y.window({64}, {0}), v + f + cast<i32>(full({64}, q)));
    });
    on_targets(p, [](const Lowered& kernel) {
        auto x = numbers<std::int32_t>(64);
        std::vector<std::int32_t> y(64);
        kernel.run({11}, x, y);
        for (std::size_t e = 0; e < 64; ++e) {
            auto v = static_cast<std::uint32_t>(x[e]), f = std::uint32_t{11};
            std::uint64_t q = 1;
            for (int i = 0; i < length; ++i) v = v * 3 + 1, f = f * 5 + 2, q = q * 3 - 1;
            REQUIRE(y[e] == static_cast<std::int32_t>(v + f + static_cast<std::uint32_t>(q)));
        }
    });
}

TEST_CASE("values with many users are computed once", "[lower]") {
    const Program p = record("kernel", [](Kernel& k) {
        const auto x = k.input<i32>("x", {64});
        const auto y = k.output<i32>("y", {64});
        k.grid(1);
        auto v = load(x.window({64}, {0}));
        for (int i = 0; i < 60; ++i) v = v + v.split(axis<0>, 8).permute<1, 0>().permute<1, 0>().merge(axis<0>);
        store(y.window({64}, {0}), v);
    });
    on_targets(p, [](const Lowered& kernel) {
        auto x = numbers<std::int32_t>(64);
        std::vector<std::int32_t> y(64, 1);
        kernel.run({}, x, y);
        CHECK(kernel.text().size() < 40'000);
        for (std::int32_t e : y) REQUIRE(e == 0);  // 2^60 times
    });
}

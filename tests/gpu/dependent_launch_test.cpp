#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "tessera/dsl.hpp"
#include "tessera/runtime.hpp"
#include "tests/gpu/driver_calls.hpp"

// Programmatic dependent launch: each kernel of a chain reads what the one ahead of it wrote.

using namespace tessera;

namespace {

/// Block i of y is block (count − 1 − i) of x, plus 1: every block reads what another one of the kernel ahead wrote.
Program swapped_plus_one() {
    return record("swapped_plus_one", [](Kernel& k) {
        k.dependent_launch();
        const Dim n = k.dim("n");
        auto x = k.input<f32>("x", {n});
        auto y = k.output<f32>("y", {n});
        const auto [block] = k.grid(ceil_div(n, 256));
        store(y.block({256}, {block}), load(x.block({256}, {ceil_div(n, 256) - 1 - block})) + 1.0f);
    });
}

}  // namespace

TEST_CASE("a chain of dependent launches gives what a chain of plain ones gives", "[gpu][graph]") {
    const Device device = Device::best();
    const Stream stream = device.stream();
    const CompiledKernel kernel = Engine::of(device).compile(swapped_plus_one());
    constexpr std::int64_t n = 1 << 20;
    constexpr int length = 200;
    const Tensor a = Tensor::zeros(stream, f32, {n}), b = Tensor::zeros(stream, f32, {n});
    const auto chain = [&](bool dependent) {
        for (int i = 0; i < length; ++i)
            kernel.launch(stream, {i % 2 == 0 ? a : b, i % 2 == 0 ? b : a}, {}, {.dependent = dependent});
    };
    const auto all_are = [&](float value) {
        const Tensor host = a.to_host(stream);
        for (std::int64_t i = 0; i < n; ++i)
            if (host.as<float>()[i] != value) return false;
        return true;
    };
    chain(true);
    CHECK(all_are(length));
    REQUIRE(test::begin_capture(stream.handle(), test::CaptureMode::global));
    chain(true);
    const test::Graph graph(test::end_capture(stream.handle()));
    REQUIRE(graph.is_ready());
    CHECK(graph.launch(stream.handle()));
    CHECK(all_are(2 * length));

    for (const bool dependent : {false, true}) {
        chain(dependent);
        stream.synchronize();
        const auto begin = std::chrono::steady_clock::now();
        chain(dependent);
        stream.synchronize();
        const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
        std::printf("chain of %d kernels, %s launches: %.2f us each\n", length, dependent ? "dependent" : "plain",
                    spent.count() / length);
    }
    CHECK(all_are(6 * length));
}

namespace {

/// Block i of z is block i of `before`, read early, plus block (count − 1 − i) of x.
Program sum_with_early_load() {
    return record("sum_with_early_load", [](Kernel& k) {
        const Dim n = k.dim("n");
        auto before = k.input<u32>("before", {n});
        auto x = k.input<u32>("x", {n});
        auto z = k.output<u32>("z", {n});
        const auto [block] = k.grid(ceil_div(n, 256));
        const auto early = load(before.block({256}, {block}));
        k.dependent_launch();
        store(z.block({256}, {block}), early + load(x.block({256}, {ceil_div(n, 256) - 1 - block})));
    });
}

}  // namespace

TEST_CASE("what is read ahead of the wait may come from the kernel before last", "[gpu][graph]") {
    const Device device = Device::best();
    const Stream stream = device.stream();
    const CompiledKernel kernel = Engine::of(device).compile(sum_with_early_load());
    constexpr std::int64_t n = 1 << 20;
    constexpr int length = 60;
    // Fibonacci's numbers: each kernel adds what the two ahead of it have written. The first launch waits for all
    // before.
    const std::vector<std::uint32_t> ones(static_cast<std::size_t>(n), 1);
    const Tensor ring[3] = {Tensor::zeros(stream, u32, {n}), Tensor::from_host(stream, u32, {n}, ones.data()),
                            Tensor::empty(stream, u32, {n})};
    std::uint32_t last = 0, now = 1;
    for (int i = 2; i < length; ++i) {
        kernel.launch(stream, {ring[(i + 1) % 3], ring[(i + 2) % 3], ring[i % 3]}, {}, {.dependent = i > 2});
        last = std::exchange(now, last + now);
    }
    const Tensor host = ring[(length - 1) % 3].to_host(stream);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) wrong += host.as<std::uint32_t>()[i] != now;
    CHECK(wrong == 0);
}

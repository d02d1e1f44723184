#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"
#include "tessera/dsl.hpp"
#include "tessera/runtime.hpp"
#include "tests/gpu/driver_calls.hpp"

// Blocks that wait for each other on the device: many syncs, several streams at once, and more blocks than fit.

using namespace tessera;

namespace {

/// Hands each block's number on to the next one, `rounds` times.
Program ring(int rounds) {
    return record("ring", [=](Kernel& k) {
        const Dim blocks = k.dim("blocks");
        const auto a = k.inout<i32>("a", {blocks}, {.align = 4}), b = k.inout<i32>("b", {blocks}, {.align = 4});
        k.threads(128);
        const auto [m] = k.grid(blocks);
        store(a[m], cast<i32>(m));
        for (int r = 0; r < rounds; ++r) {
            const auto& from = r % 2 == 0 ? a : b;
            const auto& to = r % 2 == 0 ? b : a;
            k.grid_sync();
            store(to[m], load(from[(m + 1) % blocks]));
        }
    });
}

bool turns(const CompiledKernel& kernel, const Stream& stream, std::int64_t blocks, int rounds) {
    const Tensor a = Tensor::zeros(stream, i32, {blocks}), b = Tensor::zeros(stream, i32, {blocks});
    kernel.launch(stream, {a, b});
    const Tensor result = (rounds % 2 == 0 ? a : b).to_host(stream);
    bool right = true;
    for (std::int64_t m = 0; m < blocks; ++m)
        right = right && result.as<const std::int32_t>()[m] == (m + rounds) % blocks;
    return right;
}

}  // namespace

TEST_CASE("blocks meet again and again, on several streams at once", "[gpu][grid_sync]") {
    constexpr int rounds = 40;
    const Device device = Device::cuda(0);
    const CompiledKernel kernel = Engine::of(device).compile(ring(rounds));
    for (const std::int64_t blocks : {1, 2, 31, 132, 500}) CHECK(turns(kernel, device.stream(), blocks, rounds));
    bool right[4] = {};
    {
        std::vector<std::jthread> threads;
        for (bool& mine : right)
            threads.emplace_back([&] {
                const Stream stream = device.stream();
                mine = true;
                for (int i = 0; i < 50; ++i) mine = mine && turns(kernel, stream, 60, rounds);
            });
    }
    for (const bool mine : right) CHECK(mine);
}

TEST_CASE("more blocks than run at once are refused, and the device goes on", "[gpu][grid_sync]") {
    const Device device = Device::cuda(0);
    const Stream stream = device.stream();
    const CompiledKernel kernel = Engine::of(device).compile(ring(2));
    CHECK_THROWS_WITH(turns(kernel, stream, 100000, 2), Catch::Contains("wait for each other (k.grid_sync)"));
    CHECK(turns(kernel, stream, 132, 2));
}

TEST_CASE("a captured cooperative launch replays, beside launches of the same kernel on another stream",
          "[gpu][grid_sync]") {
    constexpr int rounds = 20, blocks = 60;
    const Device device = Device::cuda(0);
    const CompiledKernel kernel = Engine::of(device).compile(ring(rounds));
    const Stream captured = device.stream(), other = device.stream();
    const Tensor a = Tensor::zeros(captured, i32, {blocks}), b = Tensor::zeros(captured, i32, {blocks});
    captured.synchronize();
    REQUIRE(test::begin_capture(captured.handle(), test::CaptureMode::relaxed));
    kernel.launch(captured, {a, b});
    kernel.launch(captured, {a, b});
    const test::Graph graph(test::end_capture(captured.handle()));
    REQUIRE(graph.is_ready());
    for (int i = 0; i < 50; ++i) {
        REQUIRE(graph.launch(captured.handle()));
        CHECK(turns(kernel, other, blocks, rounds));
    }
    const Tensor result = a.to_host(captured);
    for (int m = 0; m < blocks; ++m) CHECK(result.as<const std::int32_t>()[m] == (m + rounds) % blocks);
}

#include <functional>

#include "tests/lower/run.hpp"

// Bulk copies to tiles that threads store to as well: a fence makes the stores come first.

using namespace tessera;
using namespace tessera::test;

namespace {

/// Sums of rows that come in bulk to tiles of 8; rows that a tile lacks are zeros, stored ahead of the pipeline if
/// `clears`.
Program cleared_sums(bool clears) {
    return record("kernel", [=](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<f32>("x", {n, 64});
        const auto y = k.output<f32>("y", {8, 64});
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 8, 64});
        if (clears) store(tile.whole(), full({2, 8, 64}, Value<f32, 0>(0.0f)));
        auto sum = k.variable(full({8, 64}, Value<f32, 0>(0.0f)));
        k.pipelined(
            ceil_div(n, 8), {.stages = 2, .engine = Copies::bulk},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.block({8, 64}, {i, 0})); },
            [&](Index, Index slot) { sum = sum.get() + load(tile[slot].whole()); });
        store(y.window({8, 64}, {0, 0}), sum.get());
    });
}

/// Doubles each tile in place, in the slot of a ring, and hands it out transposed.
Program doubled_in_place() {
    return record("kernel", [](Kernel& k) {
        const Dim n = k.dim("n");
        const auto x = k.input<f32>("x", {n, 8, 32});
        const auto y = k.output<f32>("y", {n, 32, 8});
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 8, 32});
        const auto ring = k.ring({.stages = 2});
        k.roles(
            {.name = "copier", .warps = 1},
            [&] {
                k.serial(n, [&](Index i) {
                    ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[i].window({8, 32}, {0, 0})); });
                });
            },
            {.name = "doubler", .warps = 4},
            [&] {
                k.serial(n, [&](Index i) {
                    ring.use([&](Index slot) {
                        store(tile[slot].whole(), load(tile[slot].whole()) * 2.0f);
                        store(y[i].window({32, 8}, {0, 0}),
                              load(tile[slot].whole(), {.per_thread = {1, 1}}).permute<1, 0>());
                    });
                });
            });
    });
}

/// What is said once the fences are taken out.
std::string said_unfenced(const Program& program, std::vector<float> x, std::vector<float> y, std::uint64_t n) {
    ir::Program lowered = lower::lower(program.ir(), Target::h200());
    int fences = 0;
    const std::function<void(ir::Body&)> walk = [&](ir::Body& body) {
        fences += static_cast<int>(std::erase_if(body, [](const ir::Statement& s) { return s.as<ir::ProxyFence>(); }));
        for (ir::Statement& s : body)
            if (auto* loop = s.as<ir::For>()) walk(loop->body);
    };
    walk(lowered.body);
    REQUIRE(fences == 1);
    host::Settings settings;
    settings.workers = 1;
    try {
        host::Executable(std::make_shared<const ir::Program>(std::move(lowered)))
            .run({{x.data(), y.data()}, {n}}, settings);
    } catch (const InternalError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("a fence stands between stores to a tile and bulk copies to it, and nowhere else", "[lower][pipeline]") {
    on_targets(cleared_sums(true), [](const Lowered& kernel) {
        CHECK(kernel.count<ir::ProxyFence>() == 1);
        CHECK(kernel.text().find("    fence_proxy();\n    __syncthreads();") != std::string::npos);
        for (const std::uint64_t n : {1u, 8u, 13u, 16u}) {
            auto x = numbers<float>(static_cast<std::int64_t>(n) * 64);
            std::vector<float> y(8 * 64), expected(8 * 64, 0.0f);
            for (std::size_t i = 0; i < x.size(); ++i) expected[i % expected.size()] += x[i];
            kernel.run({n}, x, y);
            CHECK(y == expected);
        }
    });
    CHECK(Lowered(cleared_sums(false), Target::h200()).count<ir::ProxyFence>() == 0);
}

TEST_CASE("what is stored to a tensor is fenced before the copy engine reads it there", "[lower][pipeline]") {
    const Program program = record("kernel", [](Kernel& k) {
        const auto x = k.inout<f32>("x", {32, 64});
        const auto y = k.output<f32>("y", {8, 64});
        k.threads(64);
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {2, 8, 64});
        store(x.block({32, 64}, {0, 0}), load(x.block({32, 64}, {0, 0})) * 2.0f);
        auto sum = k.variable(full({8, 64}, Value<f32, 0>(0.0f)));
        k.pipelined(
            4, {.stages = 2, .engine = Copies::bulk},
            [&](Index i, Index slot) { copy_async(tile[slot].whole(), x.block({8, 64}, {i, 0})); },
            [&](Index, Index slot) { sum = sum.get() + load(tile[slot].whole()); });
        store(y.block({8, 64}, {0, 0}), sum.get());
    });
    on_targets(program, [](const Lowered& kernel) {
        CHECK(kernel.count<ir::ProxyFence>() >= 1);
        auto x = numbers<float>(32 * 64);
        std::vector<float> y(8 * 64), expected(8 * 64, 0.0f);
        for (std::size_t i = 0; i < x.size(); ++i) expected[i % expected.size()] += 2.0f * x[i];
        kernel.run({}, x, y);
        CHECK(y == expected);
    });
}

TEST_CASE("a slot that its user has stored to is fenced before it is given back", "[lower][roles]") {
    on_targets(doubled_in_place(), [](const Lowered& kernel) {
        CHECK(kernel.count<ir::ProxyFence>() == 1);
        constexpr std::size_t n = 5;
        auto x = numbers<float>(n * 256);
        std::vector<float> y(x.size()), expected(x.size());
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t r = 0; r < 8; ++r)
                for (std::size_t c = 0; c < 32; ++c) expected[(i * 32 + c) * 8 + r] = 2.0f * x[(i * 8 + r) * 32 + c];
        kernel.run({n}, x, y);
        CHECK(y == expected);
    });
}

TEST_CASE("a missing fence is noticed on the host", "[lower][pipeline]") {
    const std::string why = "a bulk copy writes where thread";
    CHECK_THAT(said_unfenced(cleared_sums(true), std::vector<float>(512), std::vector<float>(512), 8),
               Catch::Contains(why) && Catch::Contains("proxy_fence_test.cpp"));
    CHECK_THAT(said_unfenced(doubled_in_place(), std::vector<float>(5 * 256), std::vector<float>(5 * 256), 5),
               Catch::Contains(why));
}

#include "runtime/engine.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "dsl/base/error.hpp"
#include "runtime/id_table.hpp"
#include "runtime/tensor.hpp"
#include "tests/runtime/programs.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

TEST_CASE("a kernel runs on the host and checks its arguments") {
    Engine engine{Device::host()};
    const CompiledKernel scale = engine.compile_lowered(test::scale_program());
    const Stream s = Stream::default_of(Device::host());
    for (const std::int64_t n : {1, 127, 128, 129, 1000}) {
        std::vector<float> data(static_cast<std::size_t>(n));
        std::iota(data.begin(), data.end(), -3.0f);
        const Tensor x = Tensor::from_host(s, f32, {n}, data.data()), y = Tensor::empty(s, f32, {n});
        scale.launch(s, {x, y}, {Scalar("factor", 0.5f)});
        bool equal = true;
        for (std::int64_t i = 0; i < n; ++i) equal = equal && y.as<float>()[i] == static_cast<float>(i - 3) * 0.5f;
        CHECK(equal);
    }
    const Tensor x = Tensor::zeros(s, f32, {8}), y = Tensor::empty(s, f32, {7}), none = Tensor::empty(s, f32, {0});
    CHECK_THROWS_WITH(scale.launch(s, {x, y}, {Scalar("factor", 1)}), Contains("kernel scale: tensor y"));
    CHECK_THROWS_WITH(scale.launch(s, {x, x}), Contains("factor (f32); got: none"));
    scale.launch(s, {none, none}, {Scalar("factor", 1)});  // nothing to do is success

    // The order of checks is free, but nothing may have run.
    const Tensor target = Tensor::zeros(s, f32, {8});
    CHECK_THROWS_AS(scale.launch(s, {x, TensorView::of(Device(), target.data(), f32, {8}, {2})}, {Scalar("factor", 1)}),
                    UsageError);
}

TEST_CASE("a kernel knows what it was made from") {
    Engine engine{Device::host(Target::b200())};
    const auto program = test::scale_program();
    const CompiledKernel scale = engine.compile_lowered(program);
    CHECK(scale.name() == "scale");
    CHECK(&scale.lowered() == program.get());
    CHECK(scale.device() == Device::host(Target::b200()));
    CHECK_THAT(scale.cuda_text(), Contains("scale(") && Contains("__global__"));
    CHECK(scale.cubin().empty());
}

TEST_CASE("engines belong to a device, one each") {
    CHECK(&Engine::of(Device::host()) == &Engine::of(Stream::default_of(Device::host())));
    CHECK(&Engine::of(Device::host()) != &Engine::of(Device::host(Target::b200())));
    CHECK(Engine::of(Device::host(Target::b200())).device().target().sm == 100);
}

TEST_CASE("ids differ by name, number and value of options") {
    const KernelId id("cast", {1, 2, e4m3, true, 0.5f});
    CHECK(runtime::same_id(id, KernelId("cast", {1, 2, e4m3, true, 0.5})));
    CHECK_FALSE(runtime::same_id(id, KernelId("casts", {1, 2, e4m3, true, 0.5})));
    CHECK_FALSE(runtime::same_id(id, KernelId("cast", {1, 2, e4m3, true})));
    CHECK_FALSE(runtime::same_id(id, KernelId("cast", {2, 1, e4m3, true, 0.5})));
    CHECK_FALSE(runtime::same_id(id, KernelId("cast", {1, 2, e5m2, true, 0.5})));
    CHECK_FALSE(runtime::same_id(KernelId("a", {0}), KernelId("a", {})));
    CHECK_THROWS_WITH(KernelId("cast", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}),
                      Contains("the id of kernel cast has 13 options; at most 12"));
}

TEST_CASE("the table of kernels finds what was put in, while it grows and is read") {
    Engine engine{Device::host()};
    const CompiledKernel kernel = engine.compile_lowered(test::scale_program());
    runtime::IdTable table;
    constexpr int count = 2000;
    std::atomic<bool> done{false};
    std::atomic<int> lost{0};
    std::atomic<int> inserted{0};
    std::thread reader([&] {
        while (!done)
            for (int i = 0, n = inserted; i < n; ++i)
                if (!table.find(KernelId("k", {i, i * 64}))) ++lost;
    });
    std::vector<const CompiledKernel*> places;
    for (int i = 0; i < count; ++i) {
        places.push_back(&table.insert(KernelId("k", {i, i * 64}), kernel));
        inserted = i + 1;
    }
    done = true;
    reader.join();
    CHECK(lost == 0);
    for (int i = 0; i < count; ++i)
        REQUIRE(table.find(KernelId("k", {i, i * 64})) == places[static_cast<std::size_t>(i)]);
    CHECK(table.find(KernelId("k", {count, count * 64})) == nullptr);
    CHECK(&table.insert(KernelId("k", {0, 0}), kernel) == places[0]);
}

TEST_CASE("a kernel asked for by id is recorded once, however many threads ask") {
    Engine engine{Device::host()};
    std::atomic<int> recorded{0};
    std::vector<std::thread> threads;
    std::vector<const CompiledKernel*> got(8);
    for (std::size_t i = 0; i < got.size(); ++i)
        threads.emplace_back([&, i] {
            got[i] = &engine.kernel(KernelId("scale", {i % 2}), [&] {
                ++recorded;
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                return Program(new ir::Program(*test::scale_program()));
            });
        });
    for (std::thread& t : threads) t.join();
    CHECK(recorded == 2);
    CHECK(got[0] != got[1]);
    for (std::size_t i = 2; i < got.size(); ++i) CHECK(got[i] == got[i % 2]);

    const auto never = []() -> Program { throw InternalError("asked for a second time"); };
    const std::int64_t before = engine.counters().memory_hits;
    CHECK(&engine.prepare(KernelId("scale", {0}), never) == got[0]);
    CHECK(&engine.kernel(Stream::default_of(Device::host()), KernelId("scale", {1}), never) == got[1]);
    CHECK(engine.counters().memory_hits == before + 2);
    CHECK(engine.counters().record_ms >= 40);
}

TEST_CASE("a recording that fails is tried again at the next request") {
    Engine engine{Device::host()};
    const KernelId id("scale", {});
    CHECK_THROWS_WITH(engine.kernel(id, []() -> Program { throw UsageError("a mistake of the writer"); }),
                      Contains("a mistake of the writer"));
    CHECK(engine.kernel(id, [] { return Program(new ir::Program(*test::scale_program())); }).name() == "scale");
}

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>

#include "runtime/compiler.hpp"
#include "tests/fake_gpu/support.hpp"

using namespace tessera;
using test::fake_nvrtc;
using test::in_threads;

namespace {

/// Eight compilations wait for each other: none could end if a lock were held around another.
class Crowd {
public:
    explicit Crowd(int size) {
        fake_nvrtc().most_at_once = 0, fake_nvrtc().compiles = 0;
        fake_nvrtc().crowd = size;
    }
    ~Crowd() { fake_nvrtc().crowd = 1; }
};

template <class Condition>
bool soon(Condition&& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return condition();
}

}  // namespace

TEST_CASE("32 threads that ask for 8 kernels: 8 recordings, compilations and loads, all at once (C38)") {
    const Device device = Device::cuda(0);
    Engine engine(device);
    const Stream stream = device.stream();
    const Crowd crowd(8);
    fake::forget_calls();
    std::atomic<int> recorded{0};
    const CompiledKernel* got[32] = {};
    in_threads(32, [&](int i) {
        got[i] = &engine.kernel(stream, KernelId("crowd", {i % 8}), [&] {
            ++recorded;
            return test::scale("crowd_" + std::to_string(i % 8));
        });
    });
    CHECK(recorded == 8);
    CHECK(fake_nvrtc().compiles == 8);
    CHECK(fake_nvrtc().most_at_once == 8);
    CHECK(engine.counters().compiles == 8);
    CHECK(fake::count_of("cuLibraryLoadData") == 8);
    for (int i = 0; i < 32; ++i) {
        CHECK(got[i] == got[i % 8]);
        CHECK(got[i]->name() == "crowd_" + std::to_string(i % 8));
    }
}

TEST_CASE("threads launch while others make kernels, and every launch reaches the driver") {
    const Device device = Device::cuda(0);
    Engine engine(device);
    const Stream stream = device.stream();
    const Tensor x = Tensor::zeros(stream, f32, {64}), y = Tensor::empty(stream, f32, {64});
    fake::forget_calls();
    in_threads(8, [&](int thread) {
        for (int i = 0; i < 100; ++i) {
            const int n = (i + thread * 3) % 25;
            engine.kernel(stream, KernelId("busy", {n}), [&] { return test::scale("busy_" + std::to_string(n)); })
                .launch(stream, {x, y}, {Scalar("factor", 2.0f)});
        }
    });
    CHECK(fake::count_of("cuLaunchKernel") == 800);
    CHECK(engine.counters().compiles == 25);
}

TEST_CASE("a hit never waits for a miss") {
    const Device device = Device::cuda(0);
    Engine engine(device);
    const KernelId ready("ready", {}), slow("slow", {});
    const auto record_ready = [] { return test::scale("ready"); };
    engine.prepare(ready, record_ready);
    fake_nvrtc().hold = true;
    std::atomic<bool> done{false};
    {
        const std::jthread miss([&] {
            engine.prepare(slow, [] { return test::scale("slow"); });
            done = true;
        });
        REQUIRE(soon([] { return fake_nvrtc().inside > 0; }));
        for (int i = 0; i < 1000; ++i) engine.prepare(ready, record_ready);
        engine.compile(test::scale("ready"));  // another recording of a text that is there
        CHECK_FALSE(done);
        fake_nvrtc().hold = false;
    }
    CHECK(done);
}

TEST_CASE("who waits for a compilation that fails gets its error, and the next request compiles anew") {
    const Device device = Device::cuda(0);
    Engine engine(device);
    fake_nvrtc().compiles = 0;
    fake_nvrtc().hold = true;
    fake_nvrtc().result = 6, fake_nvrtc().log = "a.cpp(1): error: no";
    std::atomic<int> refused{0}, asking{0};
    {
        const std::jthread release([&] {
            soon([&] { return asking == 4 && fake_nvrtc().inside > 0; });
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            fake_nvrtc().hold = false;
        });
        in_threads(4, [&](int) {
            ++asking;
            try {
                engine.prepare(KernelId("failing", {}), [] { return test::scale("failing"); });
            } catch (const CompileError&) {
                ++refused;
            }
        });
    }
    CHECK(refused == 4);
    fake_nvrtc().result = 0, fake_nvrtc().log = "";
    const int before = fake_nvrtc().compiles;
    CHECK(engine.prepare(KernelId("failing", {}), [] { return test::scale("failing"); }).name() == "failing");
    CHECK(fake_nvrtc().compiles == before + 1);
}

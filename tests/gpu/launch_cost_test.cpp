#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <vector>

#ifdef TESSERA_HAS_BENCH
#include "bench/launch_cost.hpp"
#endif
#include "runtime/driver/driver.hpp"
#include "tessera/runtime.hpp"
#include "tests/runtime/programs.hpp"

using namespace tessera;

namespace {

/// Host nanoseconds of one call, over 50 calls; the stream is empty before and after.
template <class Call>
double cost_of(const Stream& s, Call&& call) {
    s.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 50; ++i) call();
    const auto end = std::chrono::steady_clock::now();
    s.synchronize();
    return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count()) / 50;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

TEST_CASE("finding, checking and launching a kernel costs at most half a microsecond more than the driver's launch") {
    const Device d = Device::best();
    Engine& engine = Engine::of(d);
    const Stream s = d.stream();
    const Tensor x = Tensor::zeros(s, f32, {1024}), y = Tensor::empty(s, f32, {1024});
    const auto record = [] { return Program(new ir::Program(*test::scale_program())); };
    const auto with_options = [&](std::int64_t n) -> const CompiledKernel& {
        return engine.kernel(s, KernelId("launch_cost", {n, 128, e4m3, true}), record);
    };
    with_options(7168).launch(s, {x, y}, {Scalar("factor", 1.0f)});

    // The bare call, with the arguments in place.
    void* library = nullptr;
    void* kernel = nullptr;
    void* function = nullptr;
    const runtime::DriverApi& api = runtime::driver_api();
    const runtime::CurrentContext current(s.context());
    REQUIRE(api.library_load(&library, with_options(7168).cubin().data(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
            0);
    REQUIRE(api.library_kernel(&kernel, library, "scale") == 0);
    REQUIRE(api.kernel_function(&function, kernel) == 0);
    void *px = x.data(), *py = y.data();
    long long n = 1024;
    float factor = 1.0f;
    void* arguments[] = {&px, &py, &n, &factor};

    std::vector<double> bare, bare_kernel, ours;
    for (int round = 0; round < 401; ++round) {
        bare.push_back(
            cost_of(s, [&] { api.launch(function, 8, 1, 1, 128, 1, 1, 0, s.handle(), arguments, nullptr); }));
        bare_kernel.push_back(
            cost_of(s, [&] { api.launch(kernel, 8, 1, 1, 128, 1, 1, 0, s.handle(), arguments, nullptr); }));
        ours.push_back(cost_of(s, [&] { with_options(7168).launch(s, {x, y}, {Scalar("factor", 1.0f)}); }));
    }
    std::printf("launch: driver %.0f ns (by CUkernel %.0f ns), found by options and checked %.0f ns\n", median(bare),
                median(bare_kernel), median(ours));
    CHECK(median(ours) - median(bare) < 500);
    api.library_unload(library);
}

#ifdef TESSERA_HAS_BENCH
TEST_CASE("per_token_cast costs the driver's launch and half a microsecond, and one more where it allocates") {
    const bench::LaunchCost cost = bench::launch_cost(Device::best().stream());
    std::printf("%s", bench::launch_cost_text(cost).c_str());
    CHECK(cost.given - cost.bare <= 0.5);
    CHECK(cost.allocating - cost.bare <= 1.5);
}
#endif

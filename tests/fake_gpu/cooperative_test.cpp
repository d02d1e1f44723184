#include <catch2/catch.hpp>

#include "dsl/base/error.hpp"
#include "tests/fake_gpu/count_allocations.hpp"
#include "tests/fake_gpu/support.hpp"

// Launches whose blocks wait for each other: the driver is told, and asked beforehand how many blocks fit. The GPU of
// these tests runs 2048 threads on each of 132 multiprocessors.

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

CompiledKernel cooperative(const Stream& stream, const char* name) {
    auto program = test::scale_program(name);
    program->cooperative = true;
    return Engine::of(stream).compile_lowered(program);
}

}  // namespace

TEST_CASE("a cooperative launch tells the driver so and takes no memory") {
    const Stream stream = Device::cuda(0).stream();
    fake::forget_calls();
    const CompiledKernel kernel = cooperative(stream, "together");
    CHECK(fake::count_of("cuOccupancyMaxActiveBlocksPerMultiprocessor") == 1);
    const Tensor x = Tensor::zeros(stream, f32, {300}), y = Tensor::empty(stream, f32, {300});
    const long before = test::allocations_of_thread();
    fake::forget_calls();
    for (int i = 0; i < 10; ++i) kernel.launch(stream, {x, y}, {Scalar("factor", 1)});
    CHECK(test::allocations_of_thread() == before);
    CHECK(fake::count_of("cuLaunchKernelEx") == 10);
    CHECK(fake::count_of("cuOccupancyMaxActiveBlocksPerMultiprocessor") == 0);
    const fake::Launch launch = fake::last_launch();
    CHECK(launch.attributes == 1);
    CHECK(launch.first_attribute == 2);  // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    CHECK(launch.blocks == 3);
    CHECK(launch.threads == 128);
}

TEST_CASE("a cooperative launch can be captured") {
    const Stream stream = Device::cuda(0).stream();
    const CompiledKernel kernel = cooperative(stream, "captured");
    const Tensor x = Tensor::zeros(stream, f32, {300}), y = Tensor::empty(stream, f32, {300});
    REQUIRE(fake::begin_capture(stream.handle()));
    kernel.launch(stream, {x, y}, {Scalar("factor", 1)});
    CHECK(fake::end_capture(stream.handle()));
}

TEST_CASE("more blocks than the GPU runs at once are refused before the launch") {
    const Stream stream = Device::cuda(0).stream();
    const CompiledKernel kernel = cooperative(stream, "too_many");
    const std::int64_t most = 132 * (2048 / 128);
    const auto launch = [&](std::int64_t blocks) {
        const Tensor x = Tensor::empty(stream, f32, {128 * blocks}), y = Tensor::empty(stream, f32, {128 * blocks});
        kernel.launch(stream, {x, y}, {Scalar("factor", 1)});
    };
    launch(most);
    fake::forget_calls();
    CHECK_THROWS_WITH(
        launch(most + 1),
        Contains("kernel too_many: its 2113 blocks wait for each other (k.grid_sync), but fake GPU 0 runs "
                 "only 2112 of them at once, with 128 threads"));
    CHECK(fake::count_of("cuLaunchKernelEx") == 0);
    CHECK_THROWS_WITH(kernel.launch(stream, {Tensor::empty(stream, f32, {128}), Tensor::empty(stream, f32, {128})},
                                    {Scalar("factor", 1)}, {.dependent = true}),
                      Contains("call k.dependent_launch() in its recording"));
}

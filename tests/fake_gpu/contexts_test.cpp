#include <catch2/catch.hpp>
#include <optional>

#include "dsl/base/error.hpp"
#include "tests/fake_gpu/support.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

void launch_on(const Device& device, const Stream& stream) {
    const CompiledKernel& kernel =
        Engine::of(device).kernel(stream, KernelId("contexts", {}), [] { return test::scale("contexts"); });
    const Tensor x = Tensor::zeros(stream, f32, {64}), y = Tensor::empty(stream, f32, {64});
    kernel.launch(stream, {x, y}, {Scalar("factor", 2.0f)});
    CHECK(fake::last_launch().stream == stream.handle());
}

}  // namespace

TEST_CASE("two GPUs: each has its context, its code and its memory (C35)") {
    fake::forget_calls();
    for (int index : {0, 1, 0}) launch_on(Device::cuda(index), Device::cuda(index).stream());
    CHECK(fake::count_of("cuLibraryLoadData") == 2);
    int launches[2] = {};
    for (std::size_t i = 0; i < fake::call_count(); ++i)
        if (std::string(fake::call(i).symbol) == "cuLaunchKernel") ++launches[fake::call(i).device];
    CHECK(launches[0] == 2);
    CHECK(launches[1] == 1);

    const Stream other = Device::cuda(1).stream();
    const CompiledKernel& kernel =
        Engine::of(Device::cuda(0)).kernel(KernelId("contexts", {}), [] { return test::scale("contexts"); });
    const Tensor x = Tensor::zeros(other, f32, {64});
    CHECK_THROWS_WITH(kernel.launch(other, {x, x}, {Scalar("factor", 1)}),
                      Contains("compiled for cuda:0 and the stream is of cuda:1"));
}

TEST_CASE("the primary context that other libraries use is retained, and none is made") {
    fake::forget_calls();
    const Stream stream = Device::cuda(0).stream();
    launch_on(Device::cuda(0), stream);
    CHECK(fake::count_of("cuCtxCreate_v2") == 0);
    CHECK(stream.context() == Stream::default_of(Device::cuda(0)).context());
}

TEST_CASE("a primary context that was reset is retained anew; what belonged to the old one is left alone (C35)") {
    const Device device = Device::cuda(1);
    std::optional<Stream> before = device.stream();
    std::optional<Tensor> old = Tensor::zeros(*before, f32, {64});
    launch_on(device, *before);
    fake::reset_primary(1);
    CHECK_THROWS_WITH(launch_on(device, *before), Contains("make streams and tensors anew after a reset"));

    fake::forget_calls();
    const Stream after = device.stream();
    CHECK(after.context() == before->context());  // as the driver may do
    launch_on(device, after);
    CHECK(fake::count_of("cuDevicePrimaryCtxRetain") == 1);
    CHECK(fake::count_of("cuMemPoolCreate") == 1);
    CHECK(fake::count_of("cuLibraryLoadData") == 0);  // code is the process's, not a context's
    fake::forget_calls();
    old.reset();
    before.reset();
    CHECK(fake::call_count() == 0);
    launch_on(device, after);
}

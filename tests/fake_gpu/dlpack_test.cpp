#include <catch2/catch.hpp>
#include <optional>

#include "dsl/base/error.hpp"
#include "tests/fake_gpu/support.hpp"
#include "tests/support/scoped_environment.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

/// A tensor of 64 FP32 numbers on a GPU, as another library hands it out; counts its deletions.
struct Foreign {
    std::int64_t extent = 64;
    int deleted = 0;
    dlpack::ManagedTensorVersioned managed{};

    Foreign(void* data, std::int32_t device_type, int device) {
        managed.context = this;
        managed.deleter = [](dlpack::ManagedTensorVersioned* m) { ++static_cast<Foreign*>(m->context)->deleted; };
        managed.tensor = {data, {device_type, device}, 1, {dlpack::floating, 32, 1}, &extent, nullptr, 0};
    }
};

}  // namespace

TEST_CASE("memory of another library is launched on where it lies, and goes back to it with the last tensor") {
    const Stream stream = Device::cuda(1).stream();
    const Tensor theirs = Tensor::zeros(stream, f32, {64}), y = Tensor::empty(stream, f32, {64});
    for (const std::int32_t type : {2, 13}) {  // kDLCUDA, kDLCUDAManaged
        Foreign foreign(theirs.data(), type, 1);
        fake::forget_calls();
        std::optional<Tensor> x = from_dlpack(&foreign.managed);
        CHECK(x->device() == Device::cuda(1));
        CHECK(x->data() == theirs.data());
        Engine::of(stream).compile(test::scale("foreign")).launch(stream, {*x, y}, {Scalar("factor", 2)});
        CHECK(fake::count_of("cuLaunchKernel") == 1);
        CHECK(fake::count_of("cuMemAllocFromPoolAsync") == 0);
        std::optional<Tensor> copy_of_it = x;
        x.reset();
        CHECK(foreign.deleted == 0);
        copy_of_it.reset();
        CHECK(foreign.deleted == 1);
        CHECK(fake::count_of("cuMemFreeAsync") == 0);  // not ours to free
    }
}

TEST_CASE("foreign memory of another GPU than the stream's is refused by name") {
    const Stream stream = Device::cuda(0).stream();
    const Tensor theirs = Tensor::zeros(Device::cuda(1).stream(), f32, {64}), y = Tensor::empty(stream, f32, {64});
    Foreign foreign(theirs.data(), 2, 1), nowhere(theirs.data(), 2, 7);
    const Tensor x = from_dlpack(&foreign.managed);
    CHECK_THROWS_WITH(
        Engine::of(stream).compile(test::scale("elsewhere")).launch(stream, {x, y}, {Scalar("factor", 2)}),
        Contains("must lie on cuda:0, where the stream is, and lies on cuda:1"));
    CHECK_THROWS_WITH(from_dlpack(&nowhere.managed), Contains("there is no cuda:7"));
    CHECK(nowhere.deleted == 0);  // still the caller's
}

TEST_CASE("a tensor handed out keeps its memory until it is released, which gives it back on its stream") {
    const test::ScopedEnvironment nothing_waits{{"TESSERA_MEMORY_CACHE", "0"}};
    const Stream stream = Device::cuda(0).stream();
    const long before = fake::live_allocations();
    std::optional<Tensor> mine = Tensor::empty(stream, f32, {64});
    dlpack::ManagedTensorVersioned* const out = to_dlpack(*mine);
    CHECK(out->tensor.device.type == 2);  // kDLCUDA
    CHECK(out->tensor.device.index == 0);
    CHECK(out->tensor.data == mine->data());
    mine.reset();
    CHECK(fake::live_allocations() == before + 1);
    fake::forget_calls();
    out->deleter(out);
    CHECK(fake::live_allocations() == before);
    CHECK(fake::count_of("cuMemFreeAsync") == 1);
    for (std::size_t i = 0; i < fake::call_count(); ++i)
        if (std::string(fake::call(i).symbol) == "cuMemFreeAsync") CHECK(fake::call(i).stream == stream.handle());
}

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/device_state.hpp"
#include "tests/fake_gpu/support.hpp"
#include "tests/support/checked_copy.hpp"

// What launches of kernels that report ask of the driver.

using namespace tessera;

extern "C" {
int cuCtxCreate_v2(void** context, unsigned flags, int device);
int cuCtxDestroy_v2(void* context);
int cuCtxPopCurrent_v2(void** context);
int cuStreamCreate(void** stream, unsigned flags);
}

namespace {

CompiledKernel checked_copy(const Device& device, const std::string& name) {
    return Engine::of(device).compile(test::checked_copy(name, 128));
}

struct Copy {
    CompiledKernel kernel;
    Stream stream;
    Tensor x = Tensor::empty(stream, i32, {32, 128}), y = Tensor::empty(stream, i32, {32, 128});
    void launch() const { kernel.launch(stream, {x, y}, {Scalar("limit", 9)}); }
};

std::size_t records_of(const Device& device) { return device.state().reports().allocations(); }

int waits() { return fake::count_of("cuStreamSynchronize") + fake::count_of("cuStreamCreate"); }

}  // namespace

TEST_CASE("the first launch of a kernel that reports does all its work on its stream and waits for nothing") {
    const Device device = Device::cuda(1);
    Stream::default_of(device).synchronize();
    const Copy one{checked_copy(device, "unprepared"), device.stream()};
    const std::size_t before = records_of(device);
    const long events = fake::live_events();
    for (int i = 0; records_of(device) == before; ++i) {  // until the memory that is there has no record left
        REQUIRE(i < 2000);
        const Copy copy{checked_copy(device, "unprepared_" + std::to_string(i)), one.stream, one.x, one.y};
        fake::forget_calls();
        copy.launch();
        CHECK(waits() == 0);
        CHECK(fake::count_of("cuLaunchKernel") == 1);
        for (std::size_t c = 0; c < fake::call_count(); ++c) {
            const std::string symbol = fake::call(c).symbol;
            const bool work = symbol == "cuLaunchKernel" || symbol == "cuEventRecord" || symbol.starts_with("cuMem");
            if (work && fake::call(c).stream != one.stream.handle()) FAIL_CHECK(symbol << " on another stream");
        }
        fake::forget_calls();
        copy.launch();
        CHECK(fake::count_of("cuMemAllocFromPoolAsync") + fake::count_of("cuMemsetD8Async") == 0);
    }
    CHECK(fake::live_events() == events + 1);
    one.stream.synchronize();
    CHECK(fake::live_events() == events);
}

TEST_CASE("memory for records is what streams keep for later, if the driver has no other") {
    const Device device = Device::cuda(0);
    const Stream stream = device.stream();
    const Tensor x = Tensor::empty(stream, i32, {32, 128}), y = Tensor::empty(stream, i32, {32, 128});
    std::vector<Copy> alive;
    for (const bool prepared : {false, true}) {
        bool asked = false;
        for (int i = 0; !asked; ++i) {  // until the memory that is there has no record left
            REQUIRE(i < 2000);
            const std::string name = "short_" + std::to_string(prepared) + std::to_string(i);
            alive.push_back({checked_copy(device, name), stream, x, y});  // so that no record comes free
            const Copy& copy = alive.back();
            Tensor::empty(stream, u8, {100});  // waits on the stream
            const long before = fake::live_allocations();
            fake::forget_calls();
            fake::fail_next("cuMemAllocFromPoolAsync", 2);
            if (prepared)
                prepare([&] { copy.launch(); });
            else
                copy.launch();
            asked = fake::count_of("cuMemAllocFromPoolAsync") > 0;
            if (!asked) continue;
            CHECK(fake::count_of("cuMemAllocFromPoolAsync") == 2);
            CHECK(fake::count_of("cuMemFreeAsync") > 0);
            CHECK(fake::live_allocations() <= before);
        }
        stream.synchronize();
    }
}

TEST_CASE("prepare leaves nothing of a report for the launch, in a capture too") {
    const Device device = Device::cuda(0);
    const Copy copy{checked_copy(device, "prepared"), device.stream()};
    prepare([&] { copy.launch(); });
    const std::size_t before = records_of(device);
    fake::forget_calls();
    copy.launch();
    REQUIRE(fake::begin_capture(copy.stream.handle()));
    copy.launch();
    CHECK(fake::end_capture(copy.stream.handle()));
    CHECK(fake::count_of("cuLaunchKernel") == 2);
    CHECK(fake::count_of("cuMemAllocFromPoolAsync") + fake::count_of("cuMemsetD8Async") + waits() == 0);
    CHECK(records_of(device) == before);
}

TEST_CASE("a captured first launch of a kernel that reports leaves the capture whole") {
    const Device device = Device::cuda(0);
    const Copy copy{checked_copy(device, "captured"), device.stream()};
    REQUIRE(fake::begin_capture(copy.stream.handle()));
    copy.launch();
    CHECK(fake::end_capture(copy.stream.handle()));
    copy.stream.synchronize();
}

TEST_CASE("a stream may go with its context before anybody looked at what its kernels reported") {
    const Device device = Device::cuda(1);
    void *context = nullptr, *handle = nullptr, *popped = nullptr;
    REQUIRE(cuCtxCreate_v2(&context, 0, 1) == 0);
    REQUIRE(cuStreamCreate(&handle, 0) == 0);
    REQUIRE(cuCtxPopCurrent_v2(&popped) == 0);
    {
        const Copy copy{checked_copy(device, "orphan"), Stream::external(device, handle)};
        copy.launch();
    }
    cuCtxDestroy_v2(context);
    Stream::default_of(device).synchronize();
    Stream::default_of(device).synchronize();
}

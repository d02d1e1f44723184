#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <set>

#include "dsl/base/error.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "tests/fake_gpu/support.hpp"
#include "tests/support/kernels/public_calls.hpp"
#include "tests/support/scoped_environment.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

extern "C" {
int cuCtxGetCurrent(void** context);
int cuCtxCreate_v2(void** context, unsigned flags, int device);
int cuCtxDestroy_v2(void* context);
int cuCtxPopCurrent_v2(void** context);
int cuStreamCreate(void** stream, unsigned flags);
}

namespace {

void* current_context() {
    void* context = nullptr;
    cuCtxGetCurrent(&context);
    return context;
}

/// Device memory that is taken, but for what the runtime keeps for reports.
long live_but_for_reports() {
    std::size_t kept = 0;
    for (const int index : {0, 1}) kept += Device::cuda(index).state().reports().allocations();
    return fake::live_allocations() - static_cast<long>(kept);
}

/// Pieces of memory that these tensors lie in.
int pieces_of(const std::vector<Tensor>& tensors) {
    std::set<std::shared_ptr<void>, std::owner_less<>> owners;
    for (const Tensor& t : tensors) owners.insert(t.owner());
    return static_cast<int>(owners.size());
}

/// A stream of a new context, as a host program brings it along.
struct Foreign {
    void *context = nullptr, *handle = nullptr, *popped = nullptr;
    explicit Foreign(int device) {
        cuCtxCreate_v2(&context, 0, device);
        cuStreamCreate(&handle, 0);
        cuCtxPopCurrent_v2(&popped);
    }
    ~Foreign() { cuCtxDestroy_v2(context); }
};

}  // namespace

TEST_CASE("every public function does all its work on the stream given, waits for nothing and leaves the context") {
    const test::ScopedEnvironment nothing_waits{{"TESSERA_MEMORY_CACHE", "0"}};
    const long before = live_but_for_reports();
    for (int index : {0, 1}) {
        const Device device = Device::cuda(index);
        const Stream stream = device.stream();
        const Foreign app(index);
        const runtime::CurrentContext mine(app.context);  // of the host program, whatever Tessera does in between
        for (const test::PublicCall& function : test::public_calls()) {
            INFO(function.name);
            const test::PreparedCall call = function.prepared(stream, 1);
            fake::forget_calls();
            call.run();
            CHECK(fake::launches() > 0);
            const int scratch = fake::count_of("cuMemAllocFromPoolAsync");
            if (function.scratch == test::Scratch::none) CHECK(scratch == 0);
            CHECK(fake::count_of("cuMemFreeAsync") == scratch);
            {
                const std::vector<Tensor> made = call.run_and_allocate();
                CHECK(made.size() == call.outputs.size());
                if (scratch == 0) CHECK(fake::count_of("cuMemAllocFromPoolAsync") == pieces_of(made));
            }
            CHECK(fake::count_of("cuMemFreeAsync") == fake::count_of("cuMemAllocFromPoolAsync"));
            CHECK(fake::count_of("cuStreamSynchronize") == 0);
            CHECK(fake::count_of("cuStreamCreate") == 0);
            CHECK(fake::count_of("cuLibraryLoadData") == 0);
            for (std::size_t i = 0; i < fake::call_count(); ++i) {
                const fake::Call c = fake::call(i);
                const std::string symbol = c.symbol;
                const bool of_stream = symbol == "cuLaunchKernel" || symbol.starts_with("cuMem");
                if (of_stream && symbol != "cuMemPoolCreate" && c.stream != stream.handle())
                    FAIL_CHECK(symbol << " on another stream");
                if (of_stream && c.context != stream.context()) FAIL_CHECK(symbol << " in another context");
            }
            CHECK(current_context() == app.context);
        }
        CHECK(current_context() == app.context);
    }
    CHECK(live_but_for_reports() == before);
}

TEST_CASE("memory is taken and given back on its own stream, at its end or when a capture is over") {
    const test::ScopedEnvironment nothing_waits{{"TESSERA_MEMORY_CACHE", "0"}};
    const Device device = Device::cuda(0);
    const Stream stream = device.stream();
    const long before = fake::live_allocations();
    Tensor t = Tensor::empty(stream, f32, {100});
    CHECK(fake::live_allocations() == before + 1);
    REQUIRE(fake::begin_capture(stream.handle()));
    t = Tensor();
    CHECK(fake::live_allocations() == before + 1);
    CHECK(fake::end_capture(stream.handle()));
    t = Tensor::empty(stream, f32, {100});
    CHECK(fake::live_allocations() == before + 1);
    t = Tensor();
    CHECK(fake::live_allocations() == before);
}

TEST_CASE("memory that waits for the end of a capture is given back in its own context, or goes with it") {
    const test::ScopedEnvironment nothing_waits{{"TESSERA_MEMORY_CACHE", "0"}};
    const Device device = Device::cuda(0);
    const Stream own = device.stream();
    const long before = fake::live_allocations();
    const Foreign app(0);
    std::optional<Tensor> late;
    {
        const Stream foreign = Stream::external(device, app.handle);
        late = Tensor::empty(foreign, f32, {100});
        REQUIRE(fake::begin_capture(app.handle));
        late.reset();
        CHECK(fake::end_capture(app.handle));
        CHECK(fake::live_allocations() == before + 1);
        Tensor::empty(own, f32, {1});
        CHECK(fake::live_allocations() == before);
        late = Tensor::empty(foreign, f32, {100});
        REQUIRE(fake::begin_capture(app.handle));
        late.reset();
        CHECK(fake::end_capture(app.handle));
    }
    cuCtxDestroy_v2(app.context);
    fake::forget_calls();
    Tensor::empty(own, f32, {1});  // works, and asks nothing of what is gone
    CHECK(fake::count_of("cuMemFreeAsync") == 1);
}

TEST_CASE("memory taken in a capture goes back in that capture, or with its graph") {
    const Device device = Device::cuda(0);
    const Stream stream = device.stream();
    const long before = fake::live_allocations();
    REQUIRE(fake::begin_capture(stream.handle()));
    {
        const Tensor inside = Tensor::zeros(stream, f32, {100});
    }
    CHECK(fake::live_allocations() == before);
    Tensor result = Tensor::empty(stream, f32, {100});
    CHECK(fake::end_capture(stream.handle()));
    fake::forget_calls();
    result = Tensor();  // the graph's; freeing it here would take it from under the replays
    CHECK(fake::count_of("cuMemFreeAsync") == 0);

    result = Tensor::empty(stream, f32, {100});
    REQUIRE(fake::begin_capture(stream.handle()));
    Tensor other = Tensor::empty(stream, f32, {100});
    CHECK(fake::end_capture(stream.handle()));
    REQUIRE(fake::begin_capture(stream.handle()));
    other = Tensor();  // of an earlier capture
    CHECK(fake::end_capture(stream.handle()));
}

TEST_CASE("streams and contexts made elsewhere are used as they are") {
    const Device device = Device::cuda(0);
    const CompiledKernel& kernel =
        Engine::of(device).kernel(KernelId("foreign", {}), [] { return test::scale("foreign"); });
    const Foreign app(0);
    const Stream stream = Stream::external(device, app.handle);
    CHECK(stream.context() == app.context);
    CHECK(stream.handle() == app.handle);
    fake::forget_calls();
    const Tensor x = Tensor::zeros(stream, f32, {64}), y = Tensor::empty(stream, f32, {64});
    kernel.launch(stream, {x, y}, {Scalar("factor", 2.0f)});
    CHECK(fake::last_launch().stream == app.handle);
    CHECK(fake::count_of("cuLibraryLoadData") == 0);  // one load serves all contexts
    CHECK(fake::count_of("cuCtxCreate_v2") == 0);
    CHECK(current_context() == nullptr);
}

TEST_CASE("a stream of another GPU is refused by name") {
    const Foreign other(1);
    CHECK_THROWS_WITH(
        Stream::external(Device::cuda(0), other.handle),
        Contains("is one of cuda:1, and the device is cuda:0; give Device::cuda(1), or a stream of cuda:0"));
    CHECK(Stream::external(Device::cuda(1), other.handle).context() == other.context);
}

#include <catch2/catch.hpp>

#include "dsl/base/error.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "tests/fake_gpu/support.hpp"
#include "tests/support/kernels/public_calls.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

TEST_CASE("a first use inside a capture is a plain error and the capture stays whole (C34)") {
    const Stream stream = Device::cuda(0).stream();
    Engine engine(stream.device());
    const auto use = [&]() -> const CompiledKernel& {
        return engine.kernel(stream, KernelId("first_use", {}), [] { return test::scale("first_use"); });
    };
    REQUIRE(fake::begin_capture(stream.handle()));
    CHECK_THROWS_WITH(use(), Contains("kernel first_use is not ready, and a stream of cuda:0 is captured") &&
                                 Contains("prepare() the kernel"));
    CHECK_THROWS_AS(prepare([&] { use(); }), UsageError);
    CHECK(fake::end_capture(stream.handle()));
    prepare([&] { use(); });
    REQUIRE(fake::begin_capture(stream.handle()));
    CHECK(use().name() == "first_use");
    CHECK(fake::end_capture(stream.handle()));
}

TEST_CASE("every public function is captured whole after prepare, with given outputs and with its own") {
    const Stream stream = Device::cuda(0).stream();
    for (const test::PublicCall& function : test::public_calls()) {
        INFO(function.name);
        const test::PreparedCall call = function.prepared(stream, 1);
        REQUIRE(fake::begin_capture(stream.handle()));
        fake::forget_calls();
        call.run();
        CHECK(fake::launches() > 0);
        CHECK(call.run_and_allocate().size() == call.outputs.size());
        CHECK(fake::end_capture(stream.handle()));
    }
}

TEST_CASE("a kernel is made ready while a stream that nothing waits for is captured, and that capture stays whole") {
    const Device device = Device::cuda(0);
    const runtime::CurrentContext current(device.state().context());
    void* handle = nullptr;
    REQUIRE(runtime::driver_api().stream_create(&handle, 1) == 0);  // not ordered with the legacy stream
    Engine engine(device);
    REQUIRE(fake::begin_capture(handle));
    const auto record = [] { return test::scale("meanwhile"); };
    CHECK(engine.prepare(KernelId("meanwhile", {}), record).name() == "meanwhile");
    CHECK(fake::end_capture(handle));
    // Of a stream that is ordered with the legacy one, that one tells.
    const Stream ordered = device.stream();
    REQUIRE(fake::begin_capture(ordered.handle()));
    CHECK_THROWS_AS(engine.prepare(KernelId("seen", {}), record), UsageError);
    CHECK(fake::end_capture(ordered.handle()));
}

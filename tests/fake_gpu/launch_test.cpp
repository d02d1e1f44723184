#include <catch2/catch.hpp>
#include <iterator>
#include <optional>
#include <string>

#include "dsl/base/error.hpp"
#include "kernels/quant.hpp"
#include "runtime/driver/driver.hpp"
#include "tests/fake_gpu/count_allocations.hpp"
#include "tests/fake_gpu/support.hpp"
#include "tests/support/kernels/public_calls.hpp"
#include "tests/support/scoped_environment.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using test::allocations_of_thread;

#ifndef TESSERA_THREAD_SANITIZER
TEST_CASE("allocations are counted") {
    const long before = allocations_of_thread();
    const std::string text(100, 'x');
    CHECK(text.size() == 100);
    CHECK(allocations_of_thread() == before + 1);
}
#endif

TEST_CASE("finding a kernel by its options, checking and launching it takes no memory") {
    const Device device = Device::cuda(0);
    const Stream stream = device.stream();
    Engine& engine = Engine::of(stream);
    const Tensor x = Tensor::zeros(stream, f32, {64}), y = Tensor::empty(stream, f32, {64});
    const auto launch = [&](std::int64_t n) {
        engine.kernel(stream, KernelId("found", {n, e4m3, true}), [] { return test::scale("found"); })
            .launch(stream, {x, y}, {Scalar("factor", 2.0f)});
    };
    launch(7168);
    fake::forget_calls();
    const long before = allocations_of_thread();
    for (int i = 0; i < 100; ++i) launch(7168);
    CHECK(allocations_of_thread() == before);
    CHECK(fake::count_of("cuLaunchKernel") == 100);
    CHECK(fake::call_count() == 300);  // with the push and the pop of the context, which is not current here
}

TEST_CASE("every public function launches into given outputs without taking memory") {
    const Stream stream = Device::cuda(0).stream();
    for (const test::PublicCall& function : test::public_calls()) {
        const test::PreparedCall call = function.prepared(stream, 1);
        call.run();
        fake::forget_calls();
        const long before = allocations_of_thread();
        call.run();
        const long taken = allocations_of_thread() - before;
        INFO(function.name);
        if (function.scratch == test::Scratch::none) CHECK(taken == 0);
        CHECK(fake::launches() > 0);
    }
}

TEST_CASE("a launch is one call of the driver and one question for its context") {
    const Stream stream = Device::cuda(0).stream();
    const runtime::CurrentContext current(stream.context());
    const Tensor x = Tensor::zeros(stream, bf16, {5, 256});
    for (const quant::ScaleLayout layout :
         {quant::ScaleLayout::row_major, quant::ScaleLayout::column_major, quant::ScaleLayout::packed_ue8m0}) {
        const quant::CastOptions options{.scale_layout = layout};
        const quant::Quantized out = quant::per_token_cast(stream, x, options);
        fake::forget_calls();
        quant::per_token_cast(stream, x, out.data, out.sf, options);
        CHECK(fake::call_count() == 1);
        CHECK(fake::count_of("cuLaunchKernel") == 1);
        CHECK(fake::context_questions() == 1);
    }
    // Others may copy or clear something, too.
    for (const test::PublicCall& function : test::public_calls()) {
        const test::PreparedCall call = function.prepared(stream, 1);
        fake::forget_calls();
        call.run();
        INFO(function.name);
        CHECK(fake::context_questions() <= static_cast<long>(fake::call_count()));
        CHECK(fake::count_of("cuCtxPushCurrent_v2") == 0);
    }
}

TEST_CASE("a kernel is found by a name that was put together as by the literal") {
    const Stream stream = Device::cuda(0).stream();
    Engine& engine = Engine::of(stream);
    const auto record = [] { return test::scale("named"); };
    const std::string name = std::string("na") + "med", other = std::string("na") + "mes";
    const CompiledKernel& kernel = engine.kernel(stream, KernelId("named", {1}), record);
    CHECK(&engine.kernel(stream, KernelId(KernelName::of(name.c_str()), {1}), record) == &kernel);
    CHECK(&engine.kernel(stream, KernelId(KernelName::of(other.c_str()), {1}), record) != &kernel);
    CHECK(&engine.kernel(stream, KernelId("names", {1}), record) ==
          &engine.kernel(stream, KernelId(KernelName::of(other.c_str()), {1}), record));
}

TEST_CASE("scales that may not be written are refused like other outputs") {
    const Stream stream = Device::cuda(0).stream();
    const Tensor x = Tensor::zeros(stream, bf16, {5, 256});
    const quant::Quantized out = quant::per_token_cast(stream, x);
    TensorView sf = out.sf;
    sf.read_only = true;
    CHECK_THROWS_WITH(quant::per_token_cast(stream, x, out.data, sf),
                      Contains("tensor sf") && Contains("is written and was given read-only memory"));
}

TEST_CASE("a cast with outputs of its own asks the driver for memory once, and gives it back with the last of them") {
    const test::ScopedEnvironment nothing_waits{{"TESSERA_MEMORY_CACHE", "0"}};
    const Stream stream = Device::cuda(0).stream();
    const Tensor x = Tensor::zeros(stream, bf16, {5, 256});
    quant::per_token_cast(stream, x);
    const long before = fake::live_allocations();
    const runtime::CurrentContext current(stream.context());
    fake::forget_calls();
    std::optional<quant::Quantized> made = quant::per_token_cast(stream, x);
    const std::string wanted[] = {"cuStreamIsCapturing", "cuMemAllocFromPoolAsync", "cuLaunchKernel"};
    CHECK(fake::call_count() == std::size(wanted));
    for (const std::string& symbol : wanted) CHECK(fake::count_of(symbol.c_str()) == 1);
    CHECK(fake::live_allocations() == before + 1);
    std::optional<Tensor> scales = made->sf;
    made.reset();
    CHECK(fake::live_allocations() == before + 1);
    scales.reset();
    CHECK(fake::live_allocations() == before);
}

TEST_CASE("a launch that the driver refuses names the kernel and what was asked for") {
    const Stream stream = Device::cuda(0).stream();
    const CompiledKernel kernel = Engine::of(stream).compile(test::scale("refused"));
    const Tensor x = Tensor::zeros(stream, f32, {300});
    fake::fail_next("cuLaunchKernel", 701);
    CHECK_THROWS_WITH(
        kernel.launch(stream, {x, Tensor::empty(stream, f32, {300})}, {Scalar("factor", 1)}),
        Contains("cannot launch kernel refused with 3 blocks of 128 threads and 0 bytes of shared memory") &&
            Contains("more registers or shared memory than the device has"));
}

TEST_CASE("prepare makes the kernels of a call ready and launches nothing") {
    const Device device = Device::cuda(0);
    const Stream stream = device.stream();
    Engine& engine = Engine::of(stream);
    const Tensor x = Tensor::zeros(stream, f32, {64}), y = Tensor::empty(stream, f32, {64});
    int recorded = 0;
    const auto launch = [&] {
        engine
            .kernel(stream, KernelId("prepared", {}),
                    [&] {
                        ++recorded;
                        return test::scale("prepared");
                    })
            .launch(stream, {x, y}, {Scalar("factor", 2.0f)});
    };
    fake::forget_calls();
    prepare(launch);
    CHECK(recorded == 1);
    CHECK(fake::count_of("cuLibraryLoadData") == 1);
    CHECK(fake::count_of("cuLaunchKernel") == 0);
    // Arguments are checked, and the end of a body that throws is its end.
    CHECK_THROWS_AS(prepare([&] { engine.compile(test::scale("wrong")).launch(stream, {x}); }), UsageError);
    launch();
    CHECK(recorded == 1);
    CHECK(fake::count_of("cuLaunchKernel") == 1);
}

TEST_CASE("on the host both forms of every public function give the same, from a seed and not always the same") {
    const Stream host = Stream::default_of(Device::host());
    for (const test::PublicCall& function : test::public_calls()) {
        INFO(function.name);
        const test::PreparedCall call = function.prepared(host, 1), other = function.prepared(host, 1000);
        call.clear_outputs(host);
        const auto cleared = test::PreparedCall::bytes_of(host, call.outputs);
        call.run();
        other.run();
        const auto result = test::PreparedCall::bytes_of(host, call.outputs);
        CHECK(result == test::PreparedCall::bytes_of(host, call.run_and_allocate()));
        CHECK(result != cleared);
        CHECK(result != test::PreparedCall::bytes_of(host, other.outputs));
    }
}

TEST_CASE("a dependent launch tells the driver that the kernel waits by itself; all others say nothing") {
    const Stream stream = Device::cuda(0).stream();
    auto program = test::scale_program("dependent");
    program->dependent_launch = true;
    program->body.insert(program->body.begin(), {program->place, ir::KernelAheadWait{}});
    const CompiledKernel kernel = Engine::of(stream).compile_lowered(program);
    const Tensor x = Tensor::zeros(stream, f32, {300}), y = Tensor::empty(stream, f32, {300});
    fake::forget_calls();
    const long before = allocations_of_thread();
    kernel.launch(stream, {x, y}, {Scalar("factor", 1)}, {.dependent = true});
    CHECK(allocations_of_thread() == before);
    CHECK(fake::count_of("cuLaunchKernelEx") == 1);
    const fake::Launch early = fake::last_launch();
    CHECK(early.attributes == 1);
    CHECK(early.first_attribute == 6);  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    CHECK(early.blocks == 3);
    CHECK(early.threads == 128);
    CHECK(early.stream == stream.handle());
    kernel.launch(stream, {x, y}, {Scalar("factor", 1)});
    CHECK(fake::count_of("cuLaunchKernel") == 1);
    CHECK(fake::last_launch().attributes == 0);
}

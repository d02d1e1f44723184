#include <catch2/catch.hpp>
#include <vector>

#include "dsl/base/error.hpp"
#include "tessera/runtime.hpp"
#include "tests/gpu/driver_calls.hpp"
#include "tests/runtime/programs.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using test::begin_capture;
using test::CaptureMode;
using test::end_capture;

namespace {

Program scale(const char* name) { return Program(new ir::Program(*test::scale_program(name))); }

/// A stream that, unlike Device::stream's, is not ordered with the default stream: the usual one to capture.
Stream unordered(const Device& d) {
    void* handle = nullptr;
    Stream::default_of(d).synchronize();
    test::driver_call<int(void*)>("cuCtxSetCurrent")(Stream::default_of(d).context());
    test::driver_call<int(void**, unsigned)>("cuStreamCreate")(&handle, 1);
    return Stream::external(d, handle);
}

}  // namespace

TEST_CASE("a kernel that is not ready is refused during a capture, which goes on unharmed; prepared, it is captured") {
    const Device d = Device::best();
    Engine engine(d);
    int names = 0;
    for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread_local_mode, CaptureMode::relaxed})
        for (const Stream& s : {d.stream(), unordered(d)}) {
            const std::string name = "captured" + std::to_string(names);
            const KernelId id("captured", {names++});
            const auto record = [&] { return scale(name.c_str()); };
            const std::vector<float> ones(64, 1.0f);
            const Tensor x = Tensor::from_host(s, f32, {64}, ones.data()), y = Tensor::zeros(s, f32, {64});
            s.synchronize();

            REQUIRE(begin_capture(s.handle(), mode));
            CHECK(s.is_capturing());
            CHECK_THROWS_WITH(engine.kernel(s, id, record),
                              Contains("kernel captured is not ready, and a stream of cuda:0 is "
                                       "captured") &&
                                  Contains("prepare() the kernel"));
            CHECK(end_capture(s.handle()) != nullptr);

            engine.prepare(id, record);
            REQUIRE(begin_capture(s.handle(), mode));
            engine.kernel(s, id, record).launch(s, {x, y}, {Scalar("factor", 4.0f)});
            const test::Graph graph(end_capture(s.handle()));
            REQUIRE(graph.is_ready());
            CHECK(y.to_host(s).as<float>()[63] == 0.0f);
            CHECK(graph.launch(s.handle()));
            CHECK(y.to_host(s).as<float>()[63] == 4.0f);
        }
}

TEST_CASE("a capture of a stream ordered with the default one is noticed without naming the stream") {
    const Device d = Device::best();
    Engine engine(d);
    const Stream s = d.stream();
    REQUIRE(begin_capture(s.handle(), CaptureMode::global));
    CHECK_THROWS_WITH(engine.kernel(KernelId("unnamed", {}), [] { return scale("unnamed"); }), Contains("is captured"));
    CHECK_THROWS_WITH(engine.compile(scale("unnamed")), Contains("is captured"));
    CHECK(end_capture(s.handle()) != nullptr);
    CHECK(engine.compile(scale("unnamed")).name() == "unnamed");
}

TEST_CASE("making a kernel ready while another stream is captured does not break that capture") {
    const Device d = Device::best();
    Engine engine(d);
    const Stream s = unordered(d);
    REQUIRE(begin_capture(s.handle(), CaptureMode::global));
    CHECK(engine.prepare(KernelId("meanwhile", {}), [] { return scale("meanwhile"); }).name() == "meanwhile");
    CHECK(end_capture(s.handle()) != nullptr);
}

TEST_CASE("a tensor that is given up during a capture harms nothing and is freed later") {
    const Device d = Device::best();
    const Stream s = unordered(d);
    Tensor t = Tensor::zeros(s, f32, {1 << 20});
    REQUIRE(begin_capture(s.handle(), CaptureMode::global));
    t = Tensor();
    CHECK(end_capture(s.handle()) != nullptr);
    CHECK(Tensor::zeros(s, f32, {16}).to_host(s).as<float>()[15] == 0.0f);
}

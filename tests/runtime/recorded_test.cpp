#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tessera/dsl.hpp"
#include "tessera/runtime.hpp"
#include "tests/runtime/child.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

/// y = |x| · scale for f32 [rows, 100], rows and pitch known at launch.
Program magnitudes() {
    return record("magnitudes", [](Kernel& k) {
        const Dim rows = k.dim("rows"), pitch = k.dim("pitch");
        const auto scale = k.scalar<f32>("scale");
        auto x = k.input<f32>("x", {rows, 100}, {.align = 4, .strides = {pitch, 1}});
        auto y = k.output<f32>("y", {rows, 100}, {.align = 4});
        const auto [m] = k.grid(ceil_div(rows, 4));
        store(y.block({4, 100}, {m, 0}), abs(load(x.block({4, 100}, {m, 0}))) * scale);
    });
}

}  // namespace

TEST_CASE("a recorded kernel runs on the host for any size and pitch, and is recorded once") {
    Engine engine{Device::host()};
    const Stream s = Stream::default_of(engine.device());
    int recorded = 0;
    for (const std::int64_t rows : {0, 1, 5, 64}) {
        std::vector<float> data(static_cast<std::size_t>(rows * 103 + 1));
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 7) - 3.0f;
        const TensorView x = TensorView::of(Device::host(), data.data(), f32, {rows, 100}, {103, 1});
        const Tensor y = Tensor::empty(s, f32, {rows, 100});
        const CompiledKernel& k = engine.kernel(KernelId("magnitudes", {}), [&] {
            ++recorded;
            return magnitudes();
        });
        k.launch(s, {x, y}, {Scalar("scale", 2.0f)});
        bool equal = true;
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < 100; ++c)
                equal =
                    equal && y.as<float>()[r * 100 + c] == 2.0f * std::abs(data[static_cast<std::size_t>(r * 103 + c)]);
        CHECK(equal);
    }
    CHECK(recorded == 1);
    CHECK(engine.counters().memory_hits == 3);
    CHECK(engine.counters().lower_ms > 0);
}

TEST_CASE("a wrong argument names the tensor and the line that declared it") {
    Engine engine{Device::host()};
    const Stream s = Stream::default_of(engine.device());
    const CompiledKernel k = engine.compile(magnitudes());
    const Tensor x = Tensor::zeros(s, f32, {4, 100}), wide = Tensor::zeros(s, f32, {4, 101}),
                 half = Tensor::zeros(s, bf16, {4, 100});
    CHECK_THROWS_WITH(k.launch(s, {half, x}, {Scalar("scale", 1)}),
                      Contains("kernel magnitudes: tensor x (recorded_test.cpp:") && Contains("must be f32, got bf16"));
    CHECK_THROWS_WITH(k.launch(s, {x, wide}, {Scalar("scale", 1)}),
                      Contains("must have extent 100 along axis 1, got 101"));
    CHECK_THROWS_WITH(k.launch(s, {x, x.view().slice(1, 0, 50)}, {Scalar("scale", 1)}), Contains("axis 1, got 50"));
}

TEST_CASE("a kernel is compiled for both targets without a device", "[.both-targets]") {
    for (const Target& target : {Target::h200(), Target::b200()}) {
        const Compiled made = compile_for(magnitudes(), target);
        CHECK(made.kernel == "magnitudes");
        CHECK_THAT(made.cuda_text, Contains("magnitudes("));
        CHECK_THAT(made.ptx, Contains(target.arch()));
        CHECK(made.cubin.size() > 1000);
    }
    const Counters all = process_counters();
    CHECK(all.misses + all.disk_hits == 2);
    CHECK(all.compiles == all.misses);
    CHECK_FALSE(test::has_mapped("libcuda.so"));
}

TEST_CASE("in a second process the same kernels come from the disk", "[.both-from-disk]") {
    for (const Target& target : {Target::h200(), Target::b200()}) compile_for(magnitudes(), target);
    CHECK(process_counters().disk_hits == 2);
    CHECK(process_counters().compiles == 0);
    CHECK_FALSE(test::has_mapped("libnvrtc"));
}

TEST_CASE("recorded kernels go through the cache like all others") {
    if (!test::has_nvrtc()) return;
    const test::ScratchFolder folder;
    const std::string settings = "TESSERA_CACHE_DIR=" + folder.path();
    CHECK(test::passes_in_new_process("[.both-targets]", settings));
    CHECK(test::passes_in_new_process("[.both-from-disk]", settings));
}

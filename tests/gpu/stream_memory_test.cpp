#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "dsl/base/error.hpp"
#include "tessera/runtime.hpp"
#include "tests/gpu/driver_calls.hpp"
#include "tests/runtime/programs.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t n = 1 << 20;

CompiledKernel doubling(const Device& d) {
    return Engine::of(d).compile(Program(new ir::Program(*test::scale_program("kept_memory"))));
}

/// x · factor in a tensor of its own.
Tensor scaled(const Stream& s, const CompiledKernel& kernel, const Tensor& x, float factor) {
    Tensor y = Tensor::empty(s, f32, {n});
    kernel.launch(s, {x, y}, {Scalar("factor", factor)});
    return y;
}

bool all_are(const Stream& s, const Tensor& t, float value) {
    const Tensor read = t.to_host(s);
    return std::all_of(read.as<float>(), read.as<float>() + n, [=](float v) { return v == value; });
}

}  // namespace

TEST_CASE("tensors in memory that others gave up hold what their own kernels wrote", "[memory]") {
    const Device d = Device::best();
    const CompiledKernel kernel = doubling(d);
    const std::vector<float> ones(n, 1.0f);
    for (const Stream& s : {d.stream(), Stream::default_of(d)}) {
        Tensor t = Tensor::from_host(s, f32, {n}, ones.data());
        std::set<void*> places;
        for (int i = 0; i < 1000; ++i) {
            places.insert(t.data());
            t = scaled(s, kernel, t, i % 2 == 0 ? 2.0f : 0.5f);
            Tensor::zeros(s, f32, {n - 100});  // meets the same memory
        }
        CHECK(all_are(s, t, 1.0f));
        CHECK(places.size() <= 3);
    }
}

TEST_CASE("memory that a stream keeps is none of a capture's, and replays do not touch it", "[memory]") {
    const Device d = Device::best();
    const CompiledKernel kernel = doubling(d);
    const std::vector<float> ones(n, 1.0f);
    const Stream s = d.stream();
    const Tensor x = Tensor::from_host(s, f32, {n}, ones.data()), y = Tensor::zeros(s, f32, {n});
    scaled(s, kernel, x, 3.0f);  // its memory is kept
    s.synchronize();
    REQUIRE(test::begin_capture(s.handle(), test::CaptureMode::thread_local_mode));
    {
        const Tensor between = scaled(s, kernel, x, 4.0f);
        kernel.launch(s, {between, y}, {Scalar("factor", 0.25f)});
    }
    const test::Graph graph(test::end_capture(s.handle()), test::Graph::auto_free_on_launch);
    REQUIRE(graph.is_ready());
    const Tensor kept = scaled(s, kernel, x, 5.0f);
    for (int i = 0; i < 10; ++i) REQUIRE(graph.launch(s.handle()));
    CHECK(all_are(s, kept, 5.0f));
    CHECK(all_are(s, y, 1.0f));
}

TEST_CASE("a request beyond the GPU's memory is an error, and what waited was given back for it", "[memory]") {
    const Device d = Device::best();
    const Stream s = d.stream();
    Tensor::zeros(s, f32, {n});
    CHECK_THROWS_WITH(Tensor::empty(s, Element::u8, {std::int64_t{1} << 42}),
                      Contains("cannot take 4398046511104 bytes"));
    CHECK(all_are(s, Tensor::zeros(s, f32, {n}), 0.0f));
}

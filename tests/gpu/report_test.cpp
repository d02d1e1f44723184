#include <catch2/catch.hpp>
#include <vector>

#include "dsl/base/error.hpp"
#include "tessera/runtime.hpp"
#include "tests/gpu/driver_calls.hpp"
#include "tests/support/checked_copy.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using test::begin_capture;
using test::CaptureMode;
using test::checked_copy;
using test::end_capture;

namespace {

constexpr std::int64_t rows = 100003;

struct Numbers {
    Device device = Device::best();
    Tensor x, y;
    explicit Numbers(const Stream& s) {
        std::vector<std::int32_t> values(static_cast<std::size_t>(rows * 96));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
        x = Tensor::from_host(s, i32, {rows, 96}, values.data());
        y = Tensor::zeros(s, i32, {rows, 96});
        s.synchronize();
    }
};

std::string said(const Stream& s) {
    try {
        s.synchronize();
    } catch (const UsageError& error) {
        return error.what();
    }
    return {};
}

/// What is said of ids of which the first bad one is `first`.
auto names(std::int64_t first) {
    return Contains("x[" + std::to_string(first / 96) + ", " + std::to_string(first % 96) + "] is " +
                    std::to_string(first) + ", but an id is below the limit");
}

}  // namespace

TEST_CASE("of millions of offenders the first is told, once, and later launches work") {
    const Device d = Device::best();
    const Stream s = d.stream();
    const Numbers n(s);
    const CompiledKernel k = Engine::of(d).compile(checked_copy("copy_a", 96));
    for (const int limit : {0, 1, 77, 5000000, static_cast<int>(rows * 96 - 1)}) {
        k.launch(s, {n.x, n.y}, {Scalar("limit", limit)});
        CHECK_THAT(said(s), names(limit));
        CHECK(said(s) == "");
    }
    k.launch(s, {n.x, n.y}, {Scalar("limit", static_cast<int>(rows * 96))});
    CHECK(said(s) == "");
    CHECK(n.y.to_host(s).as<std::int32_t>()[rows * 96 - 1] == rows * 96 - 1);

    k.launch(s, {n.x, n.y}, {Scalar("limit", 10)});
    CHECK_THROWS_WITH(n.y.to_host(s), names(10));  // a copy to the host synchronises
}

TEST_CASE("two streams report apart, and the default stream for both") {
    const Device d = Device::best();
    const Stream a = d.stream(), b = d.stream(), all = Stream::default_of(d);
    const Numbers n(a), o(b);
    const CompiledKernel k = Engine::of(d).compile(checked_copy("copy_b", 96));
    k.launch(a, {n.x, n.y}, {Scalar("limit", 30)});
    k.launch(b, {o.x, o.y}, {Scalar("limit", 40)});
    CHECK_THAT(said(b), names(40));
    CHECK_THAT(said(a), names(30));
    k.launch(a, {n.x, n.y}, {Scalar("limit", 50)});
    CHECK_THAT(said(all), names(50));
    CHECK(said(a) == "");
}

TEST_CASE("a first launch behind other work is told by the default stream, prepared or not") {
    const Device d = Device::best();
    const Stream all = Stream::default_of(d);
    for (const bool prepared : {false, true}) {
        const Stream a = d.stream();
        const Numbers n(a);
        const CompiledKernel k = Engine::of(d).compile(checked_copy("copy_d", 96));
        const auto launch = [&] { k.launch(a, {n.x, n.y}, {Scalar("limit", 30)}); };
        if (prepared) prepare(launch);
        for (int i = 0; i < 200; ++i) copy(a, n.y, n.x);
        launch();
        CHECK_THAT(said(all), names(30));
        CHECK(said(a) == "");
        launch();
        CHECK_THAT(said(a), names(30));
    }
}

TEST_CASE("a captured launch reports after each replay") {
    const Device d = Device::best();
    const Stream s = d.stream(), other = d.stream();
    const Numbers n(s);
    const CompiledKernel k = Engine::of(d).compile(checked_copy("copy_c", 96));
    REQUIRE(begin_capture(s.handle(), CaptureMode::global));
    k.launch(s, {n.x, n.y}, {Scalar("limit", 60)});
    void* const captured = end_capture(s.handle());
    REQUIRE(captured != nullptr);
    const test::Graph graph(captured);
    REQUIRE(graph.code() == 0);
    CHECK(said(s) == "");
    for (const Stream& on : {s, other, s}) {
        CHECK(graph.launch(on.handle()));
        CHECK_THAT(said(on), names(60));
        CHECK(said(on) == "");
    }
}

#include <catch2/catch.hpp>
#include <cstdio>
#include <vector>

#include "tessera/runtime.hpp"
#include "tests/gpu/driver_calls.hpp"
#include "tests/support/kernels/public_calls.hpp"

// Every public function in a CUDA graph: what a replay gives is what the call gives.

using namespace tessera;
using test::begin_capture;
using test::CaptureMode;
using test::end_capture;
using test::Graph;
using test::PreparedCall;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes called(const Stream& stream, const PreparedCall& call) {
    call.clear_outputs(stream);
    call.run();
    return PreparedCall::bytes_of(stream, call.outputs);
}

bool is_zero(const Bytes& bytes) {
    for (const std::uint8_t b : bytes)
        if (b != 0) return false;
    return true;
}

}  // namespace

TEST_CASE("every public function is captured after prepare and replays on the inputs of that moment", "[gpu][graph]") {
    const Stream stream = Device::best().stream();
    int right = 0;
    for (const test::PublicCall& function : test::public_calls()) {
        INFO(function.name);
        const PreparedCall call = function.prepared(stream, 1), other = function.prepared(stream, 1000);
        const Bytes first = called(stream, call), second = called(stream, other);
        CHECK_FALSE(is_zero(first));
        CHECK(first != second);
        call.clear_outputs(stream);
        stream.synchronize();

        REQUIRE(begin_capture(stream.handle(), CaptureMode::global));
        call.run();
        const Graph graph(end_capture(stream.handle()));
        REQUIRE(graph.is_ready());
        CHECK(is_zero(PreparedCall::bytes_of(stream, call.outputs)));  // nothing ran yet
        CHECK(graph.launch(stream.handle()));
        const bool same = PreparedCall::bytes_of(stream, call.outputs) == first;
        CHECK(same);

        for (std::size_t i = 0; i < call.inputs.size(); ++i) copy(stream, call.inputs[i], other.inputs[i]);
        call.clear_outputs(stream);
        CHECK(graph.launch(stream.handle()));
        const bool follows = PreparedCall::bytes_of(stream, call.outputs) == second;
        CHECK(follows);
        right += same && follows;
    }
    std::printf("graphs: %d of %zu public functions replay right\n", right, test::public_calls().size());
}

TEST_CASE("outputs that a function allocates during a capture are filled by every replay", "[gpu][graph]") {
    const Stream stream = Device::best().stream();
    int right = 0;
    for (const test::PublicCall& function : test::public_calls()) {
        INFO(function.name);
        const PreparedCall call = function.prepared(stream, 3);
        const Bytes expected = called(stream, call);
        REQUIRE(begin_capture(stream.handle(), CaptureMode::global));
        const std::vector<Tensor> made = call.run_and_allocate();
        const Graph graph(end_capture(stream.handle()), Graph::auto_free_on_launch);
        REQUIRE(graph.is_ready());
        bool same = true;
        for (int replay = 0; replay < 3; ++replay) {
            CHECK(graph.launch(stream.handle()));
            same = same && PreparedCall::bytes_of(stream, made) == expected;
        }
        CHECK(same);
        right += same;
    }
    std::printf("graphs: %d of %zu public functions replay right into outputs of the graph\n", right,
                test::public_calls().size());
}

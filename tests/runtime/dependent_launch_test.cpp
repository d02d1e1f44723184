#include <catch2/catch.hpp>
#include <vector>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "dsl/lower/lower.hpp"
#include "tessera/dsl.hpp"
#include "tessera/runtime.hpp"
#include "tests/runtime/child.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

/// y = x + 1
Program increment(bool dependent) {
    return record("increment", [=](Kernel& k) {
        if (dependent) k.dependent_launch();
        const Dim n = k.dim("n");
        auto x = k.input<f32>("x", {n});
        auto y = k.output<f32>("y", {n});
        const auto [block] = k.grid(ceil_div(n, 128));
        store(y.block({128}, {block}), load(x.block({128}, {block})) + 1.0f);
    });
}

constexpr const char* wait = "griddepcontrol.wait;";
constexpr const char* let_next = "griddepcontrol.launch_dependents;";

}  // namespace

TEST_CASE("a dependent launch is a fact of the program at both stages") {
    const Program plain = increment(false), dependent = increment(true);
    const ir::Program lowered = lower::lower(dependent.ir(), Target::h200());
    CHECK(lowered.dependent_launch);
    CHECK_FALSE(ir::equal(plain.ir(), dependent.ir()));
    CHECK(ir::equal(increment(true).ir(), dependent.ir()));
    for (const ir::Program* p : {&dependent.ir(), &lowered})
        CHECK_THAT(ir::print(*p), Contains(" threads, dependent launch"));
    CHECK_THAT(ir::print(plain.ir()), !Contains("dependent launch"));
}

TEST_CASE("the text waits before all that touches memory, then lets the next kernel in") {
    const auto text_of = [](bool dependent) {
        return emit::cuda_text(lower::lower(increment(dependent).ir(), Target::h200()), Target::h200());
    };
    const std::string text = text_of(true);
    const std::size_t kernel = text.find("__global__"), waits = text.find(wait), lets = text.find(let_next);
    REQUIRE(waits != std::string::npos);
    REQUIRE(lets != std::string::npos);
    CHECK(kernel < waits);
    CHECK(waits < lets);
    const std::size_t load = text.find("load_", kernel), store = text.find("store_", kernel);
    CHECK(lets < load);
    CHECK(lets < store);
    CHECK_THAT(text_of(false), !Contains("griddepcontrol"));
}

TEST_CASE("the waiting kernel compiles for both targets") {
    if (!test::has_nvrtc()) return;
    for (const Target& target : {Target::h200(), Target::b200()}) {
        const Compiled made = compile_for(increment(true), target);
        CHECK_THAT(made.ptx, Contains("griddepcontrol.wait") && Contains("griddepcontrol.launch_dependents"));
        CHECK(made.cubin.size() > 1000);
    }
}

TEST_CASE("on the host a dependent launch is a launch; a kernel that does not wait is refused") {
    Engine engine{Device::host()};
    const Stream s = Stream::default_of(engine.device());
    const Tensor x = Tensor::zeros(s, f32, {300});
    engine.compile(increment(true)).launch(s, {x, x}, {}, {.dependent = true});
    engine.compile(increment(true)).launch(s, {x, x});
    CHECK(x.as<float>()[299] == 2.0f);
    CHECK_THROWS_WITH(engine.compile(increment(false)).launch(s, {x, x}, {}, {.dependent = true}),
                      Contains("dependent_launch_test.cpp:") &&
                          Contains("kernel increment: a dependent launch starts") &&
                          Contains("call k.dependent_launch() in its recording"));
    CHECK(x.as<float>()[299] == 2.0f);
}

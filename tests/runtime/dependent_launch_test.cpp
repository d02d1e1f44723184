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

namespace {

/// y = ready · x, of which `ready` is loaded ahead of the wait.
Program product_with_early_load() {
    return record("early", [](Kernel& k) {
        const Dim n = k.dim("n");
        auto ready = k.input<f32>("ready", {n});
        auto x = k.input<f32>("x", {n});
        auto y = k.output<f32>("y", {n});
        const auto [block] = k.grid(ceil_div(n, 128));
        const auto early = load(ready.block({128}, {block}));
        k.dependent_launch();
        store(y.block({128}, {block}), early * load(x.block({128}, {block})));
    });
}

}  // namespace

TEST_CASE("what is recorded ahead of the wait runs ahead of it") {
    const Program program = product_with_early_load();
    const std::string text = emit::cuda_text(lower::lower(program.ir(), Target::h200()), Target::h200());
    const std::size_t kernel = text.find("__global__"), waits = text.find(wait, kernel);
    const std::size_t first = text.find("load_", kernel), second = text.find("load_", waits);
    CHECK(first < waits);
    CHECK_THAT(text.substr(first, waits - first), Contains("ready"));
    CHECK_THAT(text.substr(second, 100), Contains("x + "));
    CHECK(waits < text.find("store_", kernel));
    CHECK_THAT(text, !Contains(".nc."));  // the read-only path, of which the compiler may move reads past the wait

    Engine engine{Device::host()};
    const Stream s = Stream::default_of(engine.device());
    const Tensor x = Tensor::zeros(s, f32, {300}), y = Tensor::empty(s, f32, {300});
    for (int i = 0; i < 300; ++i) x.as<float>()[i] = static_cast<float>(i);
    engine.compile(product_with_early_load()).launch(s, {x, x, y}, {}, {.dependent = true});
    for (int i = 0; i < 300; ++i) CHECK(y.as<float>()[i] == static_cast<float>(i * i));
}

TEST_CASE("a wait that stands in the wrong place is refused on its line") {
    const auto refused = [](auto&& body) {
        try {
            record("early", [&](Kernel& k) {
                auto x = k.inout<f32>("x", {128});
                auto y = k.input<f32>("y", {128});
                k.grid(1);
                body(k, x, y);
            });
        } catch (const UsageError& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    CHECK(refused([](Kernel& k, auto&, auto& y) { load(y.block({128}, {0})), k.dependent_launch(); }) == "");
    CHECK_THAT(refused([](Kernel& k, auto& x, auto&) { load(x.block({128}, {0})), k.dependent_launch(); }),
               Contains("dependent_launch behind what does more than load inputs"));
    CHECK_THAT(refused([](Kernel& k, auto& x, auto& y) {
                   store(x.block({128}, {0}), load(y.block({128}, {0}))), k.dependent_launch();
               }),
               Contains("dependent_launch behind what does more than load inputs"));
    CHECK_THAT(refused([](Kernel& k, auto&, auto&) { k.dependent_launch(), k.dependent_launch(); }),
               Contains("dependent_launch twice") && Contains("call it once"));
    CHECK_THAT(refused([](Kernel& k, auto&, auto&) { k.serial(3, [&](const Index&) { k.dependent_launch(); }); }),
               Contains("dependent_launch in a loop or a condition"));
}

TEST_CASE("a wait that comes too late names the file and line of what it should stand ahead of") {
    const auto refused = [](const std::source_location& stores) {
        try {
            record("early", [&](Kernel& k) {
                auto x = k.input<f32>("x", {128});
                auto y = k.output<f32>("y", {128});
                const auto [m] = k.grid(1);
                k.when(m == 0, [&] {
                    const auto one = load(x.block({128}, {0}));
                    k.serial(2, [&](const Index&) { store(y.block({128}, {0}), one, {}, stores); });
                });
                k.dependent_launch();
            });
        } catch (const UsageError& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    const auto here = std::source_location::current();
    const std::string text = refused(here);
    CHECK_THAT(text, Contains("(" + std::string(here.file_name()) + ":" + std::to_string(here.line()) + ")"));
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

#include <catch2/catch.hpp>
#include <string>

#include "dsl/emit/cuda.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/nvrtc/nvrtc.hpp"
#include "tests/emit/builder.hpp"

using namespace tessera;
using test::Builder;

namespace {

ir::Program sample() {
    Builder b("meet");
    const test::Ref n = b.parameter(b.scalar("n"));
    b.program.grid = {n};
    b.program.cooperative = true;
    const int y = b.tensor("y", i32, ir::Role::inout, {n}, 4);
    const int r = b.array("r", i32, 1, 1);
    b.store(Builder::global(y, b.block(), 1), {b.i(1)});
    b.put(ir::GridSync{});
    b.load(Builder::global(y, b.l(0), 1), r, b.i(0));
    b.put(ir::GridSync{});
    b.store(Builder::global(y, b.block(), 1), {b.word(r, b.i(0))});
    return b.program;
}

}  // namespace

TEST_CASE("blocks meet in a word that the driver gives each launch") {
    const std::string text = emit::cuda_text(sample(), Target::h200());
    CHECK_THAT(text, Catch::Contains("    grid_sync();\n") && Catch::Contains("%%envreg2, %%envreg1") &&
                         Catch::Contains("atom.add.release.gpu.u32") && Catch::Contains("ld.acquire.gpu.u32"));
}

TEST_CASE("grid syncs compile for both architectures, twice in a kernel") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled");
        return;
    }
    for (const Target& target : {Target::h200(), Target::b200()}) {
        const std::vector<std::string> options = {std::string("--gpu-architecture=") + target.arch(), "--std=c++17"};
        const auto outcome = runtime::Nvrtc::loaded().compile(emit::cuda_text(sample(), target), "meet.cu", options);
        INFO(outcome.log);
        CHECK(outcome.ok);
        CHECK_THAT(outcome.ptx, Catch::Contains("%envreg1"));
    }
}

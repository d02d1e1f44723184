#include <catch2/catch.hpp>
#include <string>
#include <tessera/dsl.hpp>

#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tests/emit/sass.hpp"

// What a pipeline of copies becomes in machine code, for both architectures.

using namespace tessera;
using namespace tessera::test;

namespace {

/// Sums of the rows of x, 1024 columns a block.
Program column_sums(Copies engine) {
    return record("column_sums", [=](Kernel& k) {
        const Dim rows = k.dim("rows");
        const auto x = k.input<f32>("x", {rows, 4096});
        const auto y = k.output<f32>("y", {4096});
        k.threads(256);
        const Index block = k.grid(4).x;
        const auto tile = k.shared<f32>("tile", {4, 1024});
        auto sum = k.variable(full({1024}, Value<f32, 0>(0.0f)));
        const std::int64_t box = engine == Copies::tensor ? 256 : 1024;
        k.pipelined(
            rows, {.stages = 4, .engine = engine},
            [&](Index i, Index slot) {
                for (std::int64_t at = 0; at < 1024; at += box)
                    copy_async(tile[slot].window({box}, {at}), x[i].window({box}, {block * 1024 + at}));
            },
            [&](Index, Index slot) { sum = sum.get() + load(tile[slot].whole()); });
        store(y.block({1024}, {block}), sum.get());
    });
}

}  // namespace

TEST_CASE("compiles: pipelines of copies, to the instructions of their engine", "[nvrtc]") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled: " + runtime::nvrtc_search().problem);
        return;
    }
    for (const Target& target : {Target::h200(), Target::b200()})
        for (const Copies engine : {Copies::vectors, Copies::bulk, Copies::tensor}) {
            const Compiled compiled = compile_for(column_sums(engine), target);
            INFO(target.arch() << "\n" << compiled.cuda_text << "\n" << compiled.log);
            CHECK(compiled.log.find("warning") == std::string::npos);
            const std::string sass = sass_without_stack(compiled);
            if (sass.empty()) continue;
            INFO(sass);
            if (engine == Copies::vectors) {
                CHECK(count_of(sass, "LDGSTS.E.BYPASS.128") == 4);  // three stages ahead of the loop, one in it
                CHECK(count_of(sass, "LDGDEPBAR") == 4);
                CHECK(count_of(sass, "DEPBAR.LE SB0, 0x2") == 1);
                CHECK(count_of(sass, "UBLKCP") == 0);
            } else {
                if (engine == Copies::tensor) {
                    CHECK(count_of(sass, "UTMALDG.2D") == 16);  // boxes of 256 columns
                    CHECK(count_of(sass, "UTMACCTL.PF") == 1);  // the map is fetched ahead
                    CHECK(count_of(sass, "UBLKCP") == 0);
                } else {
                    CHECK(count_of(sass, "UBLKCP") == 4);
                    CHECK(count_of(sass, "UTMALDG") == 0);
                }
                CHECK(count_of(sass, "SYNCS.EXCH.64") == 4);           // an mbarrier a stage is started
                CHECK(count_of(sass, "SYNCS.PHASECHK.TRANS64") >= 1);  // and waited for
                CHECK(count_of(sass, "LDGSTS") == 0);
            }
        }
}

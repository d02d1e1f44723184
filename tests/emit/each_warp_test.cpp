#include <catch2/catch.hpp>
#include <tessera/dsl.hpp>

#include "dsl/emit/cuda.hpp"
#include "dsl/lower/lower.hpp"
#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tests/emit/sass.hpp"

// What k.each_warp becomes: the text, and the machine code for both architectures.

using namespace tessera;
using namespace tessera::test;

namespace {

/// Each warp adds up the lines of its row, as many as it has, and turns the sum round in a tile of its own.
Program row_sums(int threads) {
    return record("row_sums", [=](Kernel& k) {
        const Dim rows = k.dim("rows"), lines = k.dim("lines");
        const auto starts = k.input<i32>("starts", {rows + 1});
        const auto x = k.input<f32>("x", {lines, 256});
        const auto y = k.output<f32>("y", {rows, 256});
        k.threads(threads);
        const auto [block] = k.grid(ceil_div(rows, 32));
        const auto line = k.shared<f32>("line", {threads / 32, 256});
        k.each_warp(32, [&](Index i) {
            const Index row = block * 32 + i;
            k.when(row < rows, [&] {
                const Index first = cast<i64>(load(starts[row])), last = cast<i64>(load(starts[row + 1]));
                auto sum = k.variable(full({256}, Value<f32, 0>(0.0f)));
                k.serial(last - first, [&](Index j) { sum = sum.get() + load(x[first + j].window({256}, {0})); });
                const auto mine = line[i % (threads / 32)];
                store(mine.whole(), sum.get());
                const auto back = load(mine.window({256}, {cast<i32>(255 - coordinates({256}, axis<0>))}));
                k.when(any(back < 0.0f), [&] { store(y[row].window({256}, {0}), back); }).otherwise([&] {
                    store(y[row].window({256}, {0}), back * 2.0f);
                });
            });
        });
    });
}

std::string text_of(const Program& program) {
    return emit::cuda_text(lower::lower(program.ir(), Target::h200()), Target::h200());
}

}  // namespace

TEST_CASE("warps by themselves print as a loop by warps, with barriers of a warp", "[emit][each_warp]") {
    const std::string text = text_of(row_sums(128));
    CHECK_THAT(text, Catch::Contains("    const int warp = thread / 32;\n    const int lane = thread % 32;\n"));
    CHECK_THAT(text, Catch::Contains("for (long long item = (long long)warp; item < 32; item += 4) {"));
    CHECK_THAT(text, Catch::Contains("const bool decided = ") && Catch::Contains("__any_sync(0xffffffffu"));
    CHECK_THAT(text, Catch::Contains("if (decided) {"));
    CHECK(count_of(text, "__syncwarp();") == 2);
    CHECK(count_of(text, "__syncthreads();") == 0);
    CHECK_THAT(text, Catch::Contains("}  // item"));
    // A block of one warp has no other to share with.
    CHECK_THAT(text_of(row_sums(32)),
               Catch::Contains("for (long long item = 0; item < 32; ++item) {") && !Catch::Contains("int warp"));
    // Others may meet in the block's barrier behind it.
    const std::string both = text_of(record("both", [](Kernel& k) {
        const auto y = k.output<f32>("y", {8, 32});
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {8, 32});
        k.each_warp(8, [&](Index i) { store(tile[i].whole(), full({32}, Value<f32, 0>(1.0f))); });
        store(y.window({8, 32}, {0, 0}), load(tile.whole()));
    }));
    CHECK(both.find("__syncthreads();") > both.find("}  // item"));
    CHECK(count_of(both, "__sync") == 1);
}

TEST_CASE("compiles: warps by themselves", "[nvrtc]") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled: " + runtime::nvrtc_search().problem);
        return;
    }
    for (const Target& target : {Target::h200(), Target::b200()})
        for (const int threads : {32, 96, 1024}) {
            const Compiled compiled = compile_for(row_sums(threads), target);
            INFO(target.arch() << "\n" << compiled.cuda_text << "\n" << compiled.log);
            const std::string sass = sass_without_stack(compiled);
            if (sass.empty()) continue;
            INFO(sass);
            CHECK(count_of(sass, "BAR.SYNC") == 0);
            CHECK(count_of(sass, "VOTE") >= 1);
        }
}

#include <catch2/catch.hpp>
#include <string>

#include "dsl/emit/cuda.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "dsl/ir/verify.hpp"
#include "kernels/mhc_norm.hpp"
#include "runtime/compiled.hpp"
#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/nvrtc/nvrtc.hpp"
#include "tests/emit/builder.hpp"
#include "tests/emit/sass.hpp"

using namespace tessera;
using test::Builder;
using test::Ref;

namespace {

/// Multiplies a matrix, in shared memory and in registers, with another; the sums are stored.
ir::Program sample(Element type, int columns) {
    Builder b("products");
    b.program.threads = 128;
    b.program.grid = {b.l(1)};
    const int pack = 32 / bits_of(type), width = 32 * pack;
    const int x = b.tensor("x", type, ir::Role::input, {b.l(128 * 4 * pack)}, 16);
    const int y = b.tensor("y", f32, ir::Role::output, {b.l(64 * columns)}, 16);
    int base = 0;
    while (128 >> base != bits_of(type)) ++base;
    const int left = b.shared("left", type, {64, width}, 0, {3, base, 3});
    const int right = b.shared("right", type, {columns, width}, 64 * 128, {3, base, 3});
    b.program.shared_bytes = 64 * 128 + columns * 128;
    const Ref thread = b.let("at", b.cast(i64, b.thread()));
    const int words = b.array("loaded", type, pack, 4), sums = b.array("sums", f32, 1, columns / 2);
    b.load(Builder::global(x, b.mul(thread, b.l(4 * pack)), 4 * pack), words, b.i(0));
    for (int w = 0; w < columns / 2; ++w) b.set(sums, b.i(w), b.f(0));
    for (const int tile : {left, right}) {
        const Ref at = b.mul(b.thread(), b.i(4 * pack));
        b.store({ir::Space::shared, tile, {b.i(0), at}, 1, at, nullptr, 4 * pack},
                {b.word(words, b.i(0)), b.word(words, b.i(1)), b.word(words, b.i(2)), b.word(words, b.i(3))});
    }
    b.put(ir::ProxyFence{});
    b.barrier();
    b.put(ir::MmaFence{{sums, words}});
    ir::WarpgroupMma product;
    product.array = sums, product.into = b.i(0), product.rows_apart = columns / 4, product.columns = columns;
    product.b_tile = right, product.b_offset = b.i(0);
    product.a_tile = left, product.a_offset = b.i(8 * pack);
    b.put(product);
    product.a_tile = -1, product.a_offset = nullptr;
    for (int w = 0; w < 4; ++w) product.a.push_back(b.word(words, b.i(w)));
    b.put(product);
    b.put(ir::MmaWait{{sums, words}});
    for (int w = 0; w < columns / 2; ++w)
        b.store(Builder::global(y, b.add(b.mul(thread, b.l(columns / 2)), b.l(w)), 1), {b.word(sums, b.i(w))});
    return b.program;
}

}  // namespace

TEST_CASE("products of four warps are started and waited for") {
    const std::string text = emit::cuda_text(sample(bf16, 24), Target::h200());
    CHECK_THAT(text, Catch::Contains("__shared__ __align__(1024) unsigned char"));
    CHECK_THAT(text, Catch::Contains("    fence_proxy();\n    __syncthreads();\n    hold(sums);\n    hold(loaded);\n"
                                     "    fence_mma();\n"
                                     "    start_mma_bf16_24(&sums[0], 6, matrix<128>(left + 16), matrix<128>(right));\n"
                                     "    start_mma_bf16_24_registers(&sums[0], 6, loaded[0], loaded[1], loaded[2], "
                                     "loaded[3], matrix<128>(right));\n"
                                     "    wait_mma();\n    hold(sums);\n    hold(loaded);\n"));
    CHECK_THAT(text,
               Catch::Contains("wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, "
                               "%7, %8, %9, %10, %11}, %12, %13, add, 1, 1, 0, 0;"));
    CHECK_THAT(text, Catch::Contains("{%12, %13, %14, %15}, %16, add, 1, 1, 0;"));
}

TEST_CASE("products of four warps compile, and ptxas serialises none") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled");
        return;
    }
    for (const ir::TensorCoreInstruction& row : ir::tensor_core_instructions)
        for (const int columns : {8, 24, 128}) {
            const ir::Program program = sample(row.type, columns);
            ir::verify(program);
            INFO(name_of(row.type) << " " << columns);
            const std::vector<std::string> options = {"--gpu-architecture=sm_90a", "--std=c++17", "--ptxas-options=-v"};
            const auto outcome =
                runtime::Nvrtc::loaded().compile(emit::cuda_text(program, Target::h200()), "mma.cu", options);
            INFO(outcome.log);
            CHECK(outcome.ok);
            CHECK_THAT(outcome.log, !Catch::Contains("C75"));
            const auto spills = runtime::spills_in_log(outcome.log);
            REQUIRE(spills.has_value());
            CHECK(spills->store_bytes + spills->load_bytes == 0);
            CHECK_THAT(outcome.ptx, Catch::Contains("m64n" + std::to_string(columns) + row.warpgroup));
        }
}

TEST_CASE("the forward product of norm_fn is made by HGMMA on SM90 and HMMA on SM100", "[nvrtc]") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled");
        return;
    }
    for (const Target& target : {Target::h200(), Target::b200()}) {
        const Compiled compiled = compile_for(mhc::norm_product_halves_program({}), target);
        INFO(target.arch() << "\n" << compiled.log);
        CHECK_THAT(compiled.log, !Catch::Contains("C75"));
        const std::string sass = test::sass_without_stack(compiled);
        if (sass.empty()) continue;
        // 256 of K are 16 instructions of depth 16.
        CHECK(test::count_of(sass, "HGMMA.64x48x16.F32.BF16") == (target.sm == 90 ? 16 : 0));
        CHECK((test::count_of(sass, "HMMA") > 0) == (target.sm == 100));
    }
}

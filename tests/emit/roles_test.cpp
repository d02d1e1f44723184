#include <catch2/catch.hpp>
#include <tessera/dsl.hpp>

#include "dsl/emit/cuda.hpp"
#include "dsl/lower/lower.hpp"
#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tests/emit/sass.hpp"

// What roles and rings become: the text, and the machine code for both architectures.

using namespace tessera;
using namespace tessera::test;

namespace {

/// Sums of the rows of x and their largest, 1024 columns; a role copies, another adds up.
Program column_sums(int copiers, int adders, int copier_registers, int adder_registers) {
    return record("column_sums", [=](Kernel& k) {
        const Dim rows = k.dim("rows");
        const auto x = k.input<f32>("x", {rows, 1024});
        const auto y = k.output<f32>("y", {1024});
        k.grid(1);
        const auto tile = k.shared<f32>("tile", {4, 1024});
        const auto ring = k.ring({.stages = 4});
        k.roles(
            {.name = "copier", .warps = copiers, .registers = copier_registers},
            [&] {
                k.serial(rows, [&](Index i) {
                    ring.fill([&](Index slot) { copy_async(tile[slot].whole(), x[i].block({1024}, {0})); });
                });
            },
            {.name = "adder", .warps = adders, .registers = adder_registers},
            [&] {
                auto sum = k.variable(full({1024}, Value<f32, 0>(0.0f)));
                k.serial(rows,
                         [&](Index) { ring.use([&](Index slot) { sum = sum.get() + load(tile[slot].whole()); }); });
                store(y.block({1024}, {0}), sum.get() + reduce_max(sum.get(), axis<0>));
            });
    });
}

std::string text_of(const Program& program) {
    return emit::cuda_text(lower::lower(program.ir(), Target::h200()), Target::h200());
}

}  // namespace

TEST_CASE("roles print as branches of whole warps with barriers of their own", "[emit][roles]") {
    const std::string text = text_of(column_sums(4, 8, 40, 232));
    CHECK_THAT(text, Catch::Contains("__launch_bounds__(384, 1)"));
    CHECK_THAT(text, Catch::Contains("if (warp_of_block() < 4) {\n        // role copier\n"
                                     "        fewer_registers<40>();"));
    CHECK_THAT(text, Catch::Contains("else {\n        // role adder\n        more_registers<232>();\n"
                                     "        const int adder_thread = thread - 128;"));
    CHECK_THAT(text, Catch::Contains("init_mbarriers(empty, 4, 8);"));
    CHECK_THAT(text, Catch::Contains("if (threadIdx.x < 32) wait_mbarrier(empty + "));
    CHECK_THAT(text, Catch::Contains("role_barrier<2, 256>();"));
    CHECK_THAT(text, Catch::Contains("arrive_by_warps(empty + "));
    CHECK(count_of(text, "__syncthreads();") == 1);
    // One warp needs no named barrier, and without budgets nothing is said of registers.
    const std::string small = text_of(column_sums(1, 1, 0, 0));
    CHECK_THAT(small, Catch::Contains("__launch_bounds__(64)"));
    CHECK_THAT(small, !Catch::Contains("role_barrier") && !Catch::Contains("setmaxnreg"));
    // A budget that is what the kernel starts with changes nothing: 64 K / 512 = 128.
    const std::string even = text_of(column_sums(8, 8, 128, 128));
    CHECK_THAT(even, !Catch::Contains("setmaxnreg") && Catch::Contains("__launch_bounds__(512, 1)"));
}

TEST_CASE("compiles: roles, their registers and rings", "[nvrtc]") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled: " + runtime::nvrtc_search().problem);
        return;
    }
    for (const Target& target : {Target::h200(), Target::b200()})
        for (const bool budgets : {true, false}) {
            const Compiled compiled =
                compile_for(budgets ? column_sums(4, 8, 40, 232) : column_sums(1, 4, 0, 0), target);
            INFO(target.arch() << "\n" << compiled.cuda_text << "\n" << compiled.log);
            CHECK(compiled.log.find("setmaxnreg") == std::string::npos);  // ptxas says so where it ignores one
            const std::string sass = sass_without_stack(compiled);
            if (sass.empty()) continue;
            INFO(sass);
            CHECK(count_of(sass, "USETMAXREG.DEALLOC.CTAPOOL 0x28") == (budgets ? 1 : 0));
            CHECK(count_of(sass, "USETMAXREG.TRY_ALLOC.CTAPOOL") == (budgets ? 1 : 0));
            CHECK(count_of(sass, "UBLKCP") == 1);
            CHECK(count_of(sass, "SYNCS.EXCH.64") == 8);                // four slots, full and empty
            CHECK(count_of(sass, "BAR.SYNC.DEFER_BLOCKING 0x0") == 1);  // before the roles
            CHECK(count_of(sass,
                           budgets ? "BAR.SYNC.DEFER_BLOCKING 0x2, 0x100" : "BAR.SYNC.DEFER_BLOCKING 0x2, 0x80") >= 1);
        }
}

#include <catch2/catch.hpp>
#include <fmt/core.h>

#include "kernels/quant_lossless.hpp"
#include "runtime/compiled.hpp"
#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"

// The configurations through NVRTC for both architectures; no device is needed.

using namespace tessera;
using quant::ScaleLayout;

namespace {

struct Blocks {
    std::int64_t a, b, rows, columns;
};

/// "" if the kernel compiles without a stack frame, which is where spilled registers lie.
std::string problem_of(const Blocks& block, ScaleLayout from, ScaleLayout to, bool aligned, const Target& target) {
    const std::string where =
        fmt::format("{}x{} to {}x{}, layouts {} and {}, {} for {}: ", block.a, block.b, block.rows, block.columns,
                    static_cast<int>(from), static_cast<int>(to), aligned ? "aligned" : "narrow", target.arch());
    const Compiled compiled = compile_for(quant::per_block_cast_lossless_program(
                                              7168, {from, block.a, block.b}, {block.rows, block.columns, to}, aligned),
                                          target);
    const auto facts = runtime::read_cubin(compiled.cubin);
    const auto spills = runtime::spills_in_log(compiled.log);
    if (facts.size() != 1) return where + "not one kernel in the cubin";
    if (facts[0].stack_bytes != 0 || (spills && spills->store_bytes + spills->load_bytes != 0))
        return where + fmt::format("spills, {} registers", facts[0].registers);
    return "";
}

/// Layouts and widths take turns.
void check_compiles(const std::vector<Blocks>& all) {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled: " + runtime::nvrtc_search().problem);
        return;
    }
    constexpr ScaleLayout layouts[] = {ScaleLayout::row_major, ScaleLayout::packed_ue8m0, ScaleLayout::column_major};
    std::size_t turn = 0;
    for (const Blocks& block : all)
        for (const Target& target : {Target::h200(), Target::b200()}) {
            const bool aligned = turn % 4 != 3;
            CHECK(problem_of(block, layouts[turn % 3], layouts[turn / 2 % 3], aligned, target) == "");
            ++turn;
        }
}

}  // namespace

TEST_CASE("the usual blocks of per_block_cast_lossless compile without spills", "[quant][nvrtc]") {
    check_compiles({{1, 32, 1, 128}, {1, 32, 32, 32}, {1, 32, 128, 128}, {1, 32, 128, 128}, {32, 32, 128, 128}});
}

TEST_CASE("every kind of block of per_block_cast_lossless compiles without spills", "[.][every]") {
    check_compiles({{1, 32, 1, 32},       {1, 32, 1, 64},   {1, 32, 1, 128},  {1, 32, 1, 4096},    {1, 32, 32, 32},
                    {1, 32, 32, 32},      {1, 32, 32, 128}, {1, 32, 128, 32}, {1, 32, 128, 128},   {1, 32, 128, 128},
                    {1, 16, 128, 128},    {1, 1, 128, 128}, {1, 2, 32, 32},   {32, 32, 128, 128},  {32, 32, 32, 32},
                    {128, 128, 128, 128}, {8, 16, 16, 64},  {2, 64, 64, 64},  {1, 32, 1024, 1024}, {1, 1, 65536, 1},
                    {128, 128, 512, 512}, {1, 32, 256, 32}, {1, 1, 16384, 1}, {1, 512, 1, 512}});
}

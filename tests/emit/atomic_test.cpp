#include <catch2/catch.hpp>
#include <string>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/nvrtc/nvrtc.hpp"
#include "tests/emit/builder.hpp"

using namespace tessera;
using test::Builder;
using test::Ref;

namespace {

/// Adds to one element of each type, always and under a predicate.
ir::Program sample() {
    Builder b("sums");
    const Ref n = b.parameter(b.scalar("n"));
    b.program.grid = {n};
    const Ref in = b.let("in", b.less(b.block(), n));
    for (const Element type : {i32, u32, i64, u64}) {
        const int y = b.tensor(std::string("sum_") + name_of(type), type, ir::Role::inout, {n}, 8);
        b.put(ir::AtomicAdd{Builder::global(y, b.block(), 1), b.constant(type, 5)});
        b.put(ir::AtomicAdd{Builder::global(y, b.l(2), 1, in), b.constant(type, 1)});
    }
    const int narrow = b.shared("narrow", i32, {4}, 0), wide = b.shared("wide", u64, {4}, 128);
    b.program.shared_bytes = 160;
    b.put(ir::AtomicAdd{Builder::in_shared(narrow, b.i(3), 1), b.i(7)});
    b.put(ir::AtomicAdd{Builder::in_shared(wide, b.i(1), 1, in), b.constant(u64, 9)});
    return b.program;
}

}  // namespace

TEST_CASE("atomic additions are reductions in global and shared memory") {
    const std::string text = emit::cuda_text(sample(), Target::h200());
    for (const char* line :
         {"    atomic_add_4(sum_i32 + block, 5);\n", "    atomic_add_4_if(in, sum_u32 + 2, 1u);\n",
          "    atomic_add_8(sum_i64 + block, 5ll);\n", "    atomic_add_8_if(in, sum_u64 + 2, 1ull);\n",
          "    atomic_add_shared_4(narrow + 3, 7);\n", "    atomic_add_shared_8_if(in, wide + 1, 9ull);\n",
          "asm volatile(\"red.global.add.u64 [%0], %1;\"", "asm volatile(\"red.shared.add.u32 [%0], %1;\"",
          "asm volatile(\"{ .reg .pred in; setp.ne.u32 in, %2, 0; @in red.global.add.u32 [%0], %1; }\""})
        CHECK_THAT(text, Catch::Contains(line));
}

TEST_CASE("atomic additions compile for both architectures") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled");
        return;
    }
    for (const Target& target : {Target::h200(), Target::b200()}) {
        const std::vector<std::string> options = {std::string("--gpu-architecture=") + target.arch(), "--std=c++17"};
        const auto outcome = runtime::Nvrtc::loaded().compile(emit::cuda_text(sample(), target), "sums.cu", options);
        INFO(outcome.log);
        CHECK(outcome.ok);
        CHECK_THAT(outcome.ptx, Catch::Contains("red.global.add.u64") && Catch::Contains("red.shared.add.u64"));
    }
}

TEST_CASE("atomic additions of floats are refused") {
    Builder floats("floats");
    const int y = floats.tensor("y", f32, ir::Role::inout, {floats.l(1)}, 8);
    floats.program.grid = {floats.l(1)};
    floats.put(ir::AtomicAdd{Builder::global(y, floats.l(0), 1), floats.f(1)});
    CHECK_THROWS_AS(emit::cuda_text(floats.program, Target::h200()), InternalError);
}

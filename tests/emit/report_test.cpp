#include <catch2/catch.hpp>
#include <string>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/nvrtc/nvrtc.hpp"
#include "tests/emit/builder.hpp"

using namespace tessera;
using test::Builder;
using test::Ref;

namespace {

ir::Program sample() {
    Builder b("checks");
    const Ref n = b.parameter(b.scalar("n"));
    b.program.grid = {n};
    const int ids = b.tensor("ids", i32, ir::Role::input, {n}, 4);
    b.program.rules = {{"first", ids, true, i32, {}}, {"second", ids, false, i64, {}}};
    const Ref in = b.let("in", b.less(b.block(), n));
    const Ref place = b.let("place", b.cast(u64, b.block()));
    b.put(ir::ReportElement{0, place, in, b.l(7)});
    b.put(ir::ReportElement{1, place, b.less(b.l(3), b.block()), b.block()});
    return b.program;
}

}  // namespace

TEST_CASE("a report is a call under its condition, and the record a last argument") {
    const std::string text = emit::cuda_text(sample(), Target::h200());
    for (const char* line : {"    unsigned long long* record    // what is reported: place, value\n",
                             "    if (in) report_first(record, place, 7);\n",
                             "    if (3 < block) report_first(record, 0x100000000000000ull | place, block);\n"})
        CHECK_THAT(text, Catch::Contains(line));
    Builder quiet("quiet");
    quiet.program.grid = {quiet.l(1)};
    CHECK_THAT(emit::cuda_text(quiet.program, Target::h200()), !Catch::Contains("record"));
}

TEST_CASE("a report by a rule that there is not is no text") {
    ir::Program p = sample();
    p.rules.pop_back();
    CHECK_THROWS_AS(emit::cuda_text(p, Target::h200()), InternalError);
}

TEST_CASE("reports compile for both architectures, without memory of their own") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled");
        return;
    }
    for (const Target& target : {Target::h200(), Target::b200()}) {
        const std::vector<std::string> options = {std::string("--gpu-architecture=") + target.arch(), "--std=c++17"};
        const auto outcome = runtime::Nvrtc::loaded().compile(emit::cuda_text(sample(), target), "checks.cu", options);
        INFO(outcome.log);
        REQUIRE(outcome.ok);
        CHECK_THAT(outcome.ptx, Catch::Contains("atom.relaxed.gpu.global.cas.b128"));
        CHECK(runtime::read_cubin(outcome.cubin).at(0).stack_bytes == 0);
    }
}

#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <vector>

#include "bench/case.hpp"
#include "kernels/transpose.hpp"
#include "runtime/compiled.hpp"
#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"

// Every kernel that is benchmarked, and the transposes of odd sizes, through NVRTC for both architectures: no register
// may be spilled, and ptxas may warn of nothing.

using namespace tessera;

namespace {

struct Recording {
    std::string name;
    std::function<Program()> record;
};

std::vector<Recording> recordings() {
    std::vector<Recording> all;
    for (const bench::Category& category : bench::categories())
        for (const bench::Case& c : category.cases())
            if (c.program) all.push_back({c.kernel + " " + c.name, c.program});
    for (int bytes : {1, 2, 4})
        all.push_back({"batched_transpose of odd sizes, " + std::to_string(bytes) + " bytes",
                       [=] { return transpose::batched_transpose_program(bytes, false); }});
    return all;
}

/// "" if it compiles without a stack frame, a spill or a warning.
std::string problem_of(const Recording& r, const Target& target) {
    const std::string where = r.name + " for " + target.arch() + ": ";
    try {
        const Compiled compiled = compile_for(r.record(), target);
        for (const runtime::CubinFacts& facts : runtime::read_cubin(compiled.cubin))
            if (facts.stack_bytes != 0)
                return where + "a stack frame of " + std::to_string(facts.stack_bytes) + " bytes";
        const auto spills = runtime::spills_in_log(compiled.log);
        if (spills && spills->store_bytes + spills->load_bytes != 0) return where + "spills";
        if (compiled.log.find("(C75") != std::string::npos) return where + compiled.log;
        return "";
    } catch (const std::exception& error) {
        return where + error.what();
    }
}

}  // namespace

TEST_CASE("no kernel spills a register, on either architecture", "[nvrtc]") {
    if (!runtime::nvrtc_search().path) {
        WARN("libnvrtc was not found, so nothing was compiled: " + runtime::nvrtc_search().problem);
        return;
    }
    const std::vector<Recording> all = recordings();
    CHECK(all.size() > 40);
    std::vector<std::future<std::vector<std::string>>> running;
    for (const Target& target : {Target::h200(), Target::b200()})
        running.push_back(std::async(std::launch::async, [&all, target] {
            std::vector<std::string> problems;
            for (const Recording& r : all) problems.push_back(problem_of(r, target));
            return problems;
        }));
    for (auto& worker : running)
        for (const std::string& problem : worker.get()) CHECK(problem == "");
}

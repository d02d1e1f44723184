#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "runtime/compiled.hpp"
#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tests/quant_packed/configurations.hpp"
#include "tests/support/shapes.hpp"

// The configurations of the quantization kernels through NVRTC for both architectures; no device is needed.

using namespace tessera;
using namespace tessera::test;

namespace {

bool have_nvrtc() {
    if (runtime::nvrtc_search().path) return true;
    WARN("libnvrtc was not found, so nothing was compiled: " + runtime::nvrtc_search().problem);
    return false;
}

/// "" if the kernel compiles without a stack frame, which is where spilled registers lie.
std::string problem_of(const Configuration& c, const Target& target) {
    const std::string where = c.name + " for " + target.arch() + ": ";
    try {
        const Compiled compiled = compile_for(c.record(), target);
        const auto facts = runtime::read_cubin(compiled.cubin);
        if (facts.size() != 1) return where + std::to_string(facts.size()) + " kernels in the cubin";
        const auto spills = runtime::spills_in_log(compiled.log);
        if (facts[0].stack_bytes != 0 || (spills && spills->store_bytes + spills->load_bytes != 0))
            return where + "spills, a stack frame of " + std::to_string(facts[0].stack_bytes) + " bytes with " +
                   std::to_string(facts[0].registers) + " registers";
        return "";
    } catch (const std::exception& error) {
        return where + error.what();
    }
}

void check_compiles(const std::vector<Configuration>& all) {
    const unsigned workers = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::future<std::vector<std::string>>> running;
    for (unsigned w = 0; w < workers; ++w)
        running.push_back(std::async(std::launch::async, [&all, w, workers] {
            std::vector<std::string> problems;
            for (std::size_t i = w; i < all.size(); i += workers)
                for (const Target& target : {Target::h200(), Target::b200()})
                    problems.push_back(problem_of(all[i], target));
            return problems;
        }));
    for (auto& worker : running)
        for (const std::string& problem : worker.get()) CHECK(problem == "");
}

}  // namespace

TEST_CASE("a cross-section of the quantization kernels compiles without spills", "[quant][nvrtc]") {
    if (have_nvrtc()) check_compiles(thinned(quant_configurations(), 97));
}

TEST_CASE("every configuration of the quantization kernels compiles without spills", "[.][every]") {
    if (have_nvrtc()) check_compiles(quant_configurations());
}

// How much faster all kernels of a category compile on two cores than one after the other.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fmt/format.h>
#include <limits>
#include <sstream>
#include <thread>

#include "runtime/compiler.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tools/tessera/in_parallel.hpp"
#include "tools/tessera/warm_list.hpp"

namespace tessera::tool_test {
namespace {

std::vector<tool::WarmItem> quantization_kernels() {
    std::string list;
    for (const tool::KernelEntry& kernel : tool::kernel_table())
        if (kernel.name.starts_with("per_") || kernel.name.starts_with("cast_back"))
            for (const char* options : {"", "aligned=false", "hidden=4096"})
                list += fmt::format("{} {}\n", kernel.name, options);
    std::istringstream text(list);
    return tool::read_warm_list(text, "list");
}

template <class Work>
double seconds_of(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// From the recording to the cubin, nothing kept.
double compile(const std::vector<tool::WarmItem>& items, std::size_t threads) {
    runtime::CacheSettings no_cache;
    no_cache.enabled = false;
    runtime::Compiler compiler(no_cache);
    std::atomic<int> failed{0};
    const double seconds = seconds_of([&] {
        tool::in_parallel(items.size(), threads, [&](std::size_t i) {
            try {
                const Target target = Target::h200();
                const Program program = items[i].kernel->program(items[i].args, target);
                runtime::CounterSet ignored;
                const auto lowered = runtime::lowered_for(program.ir(), target, compiler.counters());
                (void)runtime::compile_lowered(compiler, *lowered, target, ignored);
            } catch (const std::exception&) {
                ++failed;
            }
        });
    });
    CHECK(failed == 0);
    CHECK(compiler.counters().compiles > 30);
    return seconds;
}

/// What two threads gain at this moment on work that shares nothing: 2 on an idle machine with two cores.
double gain_of_two_cores() {
    const auto spin = [](std::size_t) {
        std::uint64_t state = 1;
        for (int i = 0; i < 60'000'000; ++i) state = state * 6364136223846793005u + 1442695040888963407u;
        volatile std::uint64_t kept = state;
        (void)kept;
    };
    const double one = seconds_of([&] { tool::in_parallel(4, 1, spin); });
    return one / seconds_of([&] { tool::in_parallel(4, 2, spin); });
}

}  // namespace

TEST_CASE("all kernels of a category compile on two cores at least 1.7 times as fast as one by one", "[.][long]") {
    if (!runtime::nvrtc_search().path || std::thread::hardware_concurrency() < 2) {
        WARN("not run: it needs libnvrtc and two cores");
        return;
    }
    const std::vector<tool::WarmItem> items = quantization_kernels();
    (void)compile(items, 2);  // loads NVRTC
    double serial = std::numeric_limits<double>::infinity(), parallel = serial, cores = 0;
    for (int round = 0; round < 3; ++round) {
        serial = std::min(serial, compile(items, 1));
        parallel = std::min(parallel, compile(items, 2));
        cores = std::max(cores, gain_of_two_cores());
    }
    WARN(fmt::format(
        "{} kernels: {:.2f} s one by one, {:.2f} s two at a time, {:.2f} times as fast (two cores gain {:.2f} now)",
        items.size(), serial, parallel, serial / parallel, cores));
    // Other programs may leave less than two cores; of what they leave the same part must be used.
    CHECK(serial / parallel >= 1.7 * std::min(1.0, cores / 2));
}

}  // namespace tessera::tool_test

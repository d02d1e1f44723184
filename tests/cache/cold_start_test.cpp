// Sixteen processes of eight threads each start at once with an empty cache and want the same kernels.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "runtime/compiler.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tests/cache/crowd.hpp"
#include "tests/cache/support.hpp"

using namespace tessera;
using namespace tessera::runtime;
using namespace tessera::test;

namespace {

constexpr int kernels = 8;

template <class Work>
void in_eight_threads(Work work) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) threads.emplace_back(work, t);
    for (std::thread& thread : threads) thread.join();
}

void check_crowd(const std::string& child, const std::filesystem::path& folder) {
    Crowd crowd(child, 16, {{"TESSERA_CACHE_DIR", folder.string()}, {"TESSERA_CACHE", ""}});
    for (const ChildResult& result : crowd.start_and_wait()) {
        INFO(result.output);
        CHECK(result.exit_code == 0);
        CHECK(result.warnings() == 0);
    }
    CHECK(files_below(folder).size() == kernels);
    CHECK(CubinCache({true, folder, 1 << 30}).verify().sound == kernels);
}

std::string text_of(int n) {
    return "extern \"C\" __global__ void k(float* x) { x[threadIdx.x] = x[" + std::to_string(n) + "] * 2.0f; }";
}

}  // namespace

TEST_CASE("child: eight threads start cold", "[.child]") {
    CubinCache cache;
    std::atomic<int> wrong{0};
    wait_for_start();
    in_eight_threads([&](int t) {
        for (int i = 0; i < kernels; ++i) {
            const int n = (i + t) % kernels;
            const auto found = cache.load(sample_key(n));
            if (found && !same(*found, sample_compilation(n, 20'000))) ++wrong;
            if (!found) cache.publish(sample_key(n), sample_compilation(n, 20'000));
        }
    });
    CHECK(wrong == 0);
    CHECK(cache.stats().failed == 0);
    CHECK(cache.stats().damaged == 0);
}

TEST_CASE("cold start: 16 processes of 8 threads, one entry a kernel, no temporary, no warning (C29)") {
    TemporaryFolder folder;
    check_crowd("child: eight threads start cold", folder.path() / "cache");
}

TEST_CASE("child: eight threads compile cold", "[.child]") {
    Compiler compiler;
    CounterSet counters;
    std::atomic<int> wrong{0};
    wait_for_start();
    in_eight_threads([&](int t) {
        for (int i = 0; i < kernels; ++i) {
            const auto made = compiler.obtain("k", text_of((i + t) % kernels), Target::h200(), counters);
            if (made->cubin.empty() || made->cuda_text != text_of((i + t) % kernels)) ++wrong;
        }
    });
    CHECK(wrong == 0);
    CHECK(counters.compiles + counters.disk_hits == kernels);
}

TEST_CASE("cold start: 16 processes of 8 threads through NVRTC (C29)", "[.][long]") {
    if (!nvrtc_search().path) {
        WARN("not run: there is no libnvrtc on this machine");
        return;
    }
    for (const Medium medium : {Medium::disk, Medium::memory}) {
        TemporaryFolder folder(medium);
        check_crowd("child: eight threads compile cold", folder.path() / "cache");
    }
}

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "dsl/base/error.hpp"
#include "runtime/compile_error.hpp"
#include "runtime/compiler.hpp"
#include "runtime/cubin.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tests/runtime/child.hpp"
#include "tests/runtime/programs.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using runtime::CacheSettings;
using runtime::Compiler;
using runtime::CounterSet;

namespace {

const char* const copy_text = R"(extern "C" __global__ void duplicate(const float* x, float* y, long long n) {
#line 1234 "writer.cpp"
    const long long i = blockIdx.x * 128ll + threadIdx.x;
    if (i < n) y[i] = x[i];
}
)";

CacheSettings cache_in(const std::string& folder) {
    CacheSettings settings;
    settings.folder = folder;
    return settings;
}

}  // namespace

TEST_CASE("a text compiles for both targets, once, and is found in memory and on disk afterwards") {
    if (!test::has_nvrtc()) return;
    const test::ScratchFolder folder;
    CounterSet first, second;
    Compiler compiler(cache_in(folder.path()));
    for (const Target& target : {Target::h200(), Target::b200()}) {
        const auto made = compiler.obtain("duplicate", copy_text, target, first);
        CHECK(runtime::read_cubin(made->cubin).at(0).kernel == "duplicate");
        CHECK(runtime::read_cubin(made->cubin).at(0).stack_bytes == 0);
        CHECK_THAT(made->ptx, Contains(std::string(".target ") + target.arch()));
        CHECK_THAT(made->log, Contains("registers"));
        CHECK(made->key.size() == 32);
        CHECK(compiler.obtain("duplicate", copy_text, target, first) == made);
    }
    CHECK(first.values().compiles == 2);
    CHECK(first.values().misses == 2);
    CHECK(first.values().memory_hits == 2);
    CHECK(first.values().compile_ms > 0);

    Compiler other(cache_in(folder.path()));
    const auto again = other.obtain("duplicate", copy_text, Target::h200(), second);
    CHECK(again->cubin == compiler.obtain("duplicate", copy_text, Target::h200(), first)->cubin);
    CHECK(again->ptx.size() > 0);
    CHECK(second.values().compiles == 0);
    CHECK(second.values().disk_hits == 1);
}

TEST_CASE("a hit on disk needs no compiler in the process", "[.disk-hit]") {
    CounterSet counters;
    Compiler::shared().obtain("duplicate", copy_text, Target::h200(), counters);
    CHECK(counters.values().disk_hits == 1);
    CHECK(counters.values().compiles == 0);
    CHECK_FALSE(test::has_mapped("libnvrtc"));
}

TEST_CASE("a second process compiles nothing and does not open NVRTC") {
    if (!test::has_nvrtc()) return;
    const test::ScratchFolder folder;
    const std::string settings = "TESSERA_CACHE_DIR=" + folder.path();
    CHECK_FALSE(test::passes_in_new_process("[.disk-hit]", settings + " 2>/dev/null"));  // an empty cache is no hit
    CHECK(test::passes_in_new_process("[.disk-hit]", settings));
}

TEST_CASE("a hand-built program is printed and compiles for both targets without a spill") {
    if (!test::has_nvrtc()) return;
    const test::ScratchFolder folder;
    CounterSet counters;
    Compiler compiler(cache_in(folder.path()));
    for (const Target& target : {Target::h200(), Target::b200()}) {
        const auto made = runtime::compile_lowered(compiler, *test::scale_program(), target, counters);
        CHECK(made->kernel == "scale");
        CHECK(runtime::spills_in_log(made->log).value().store_bytes == 0);
    }
    CHECK(counters.values().emit_ms > 0);
}

TEST_CASE("32 threads that want 8 kernels compile each once (C38)") {
    if (!test::has_nvrtc()) return;
    const test::ScratchFolder folder;
    Compiler compiler(cache_in(folder.path()));
    CounterSet counters;
    std::vector<std::thread> threads;
    std::vector<std::shared_ptr<const Compiled>> got(32);
    for (std::size_t i = 0; i < got.size(); ++i)
        threads.emplace_back([&, i] {
            const std::string name = "kernel" + std::to_string(i % 8);
            got[i] = compiler.obtain(name, "extern \"C\" __global__ void " + name + "() {}", Target::h200(), counters);
        });
    for (std::thread& t : threads) t.join();
    CHECK(counters.values().compiles == 8);
    CHECK(counters.values().memory_hits == 24);
    for (std::size_t i = 8; i < got.size(); ++i) CHECK(got[i] == got[i % 8]);
}

TEST_CASE("a text that does not compile is an error with all that helps", "[C37]") {
    if (!test::has_nvrtc()) return;
    const test::ScratchFolder folder;
    Compiler compiler(cache_in(folder.path()));
    CounterSet counters;
    std::string text = copy_text;
    text.replace(text.find("y[i]"), 4, "why[i]");
    std::string what;
    for (int attempt = 0; attempt < 2; ++attempt) try {
            compiler.obtain("duplicate", text, Target::b200(), counters);
        } catch (const CompileError& error) {
            what = error.what();
        }
    CHECK(counters.values().compiles == 2);  // a failure is not kept
    CHECK_THAT(what, Contains("kernel duplicate does not compile for sm_100a: NVRTC_ERROR_COMPILATION"));
    CHECK_THAT(what, Contains("writer.cpp(1235): error: identifier \"why\" is undefined"));
    CHECK_THAT(what, Contains(runtime::nvrtc_search().path->native()));
    CHECK_THAT(what, Contains("--gpu-architecture=sm_100a") && Contains("--fmad=false") && Contains("NVRTC CUDA 1"));

    const std::string kept = what.substr(what.find("text:     ") + 10);
    std::stringstream content;
    content << std::ifstream(kept).rdbuf();
    CHECK(content.str() == text);
    std::filesystem::remove_all(std::filesystem::path(kept).parent_path());
}

TEST_CASE("a compiler that does not know the target, or that the driver does not follow, is named") {
    if (!test::has_nvrtc()) return;
    const runtime::Nvrtc& nvrtc = runtime::Nvrtc::loaded();
    Target unknown;
    unknown.sm = 42;
    CHECK_THROWS_WITH(runtime::check_versions(nvrtc, unknown, 0),
                      Contains("is too old for") && Contains(nvrtc.path().native()) && Contains("it knows ") &&
                          Contains("TESSERA_NVRTC"));
    CHECK_THROWS_WITH(runtime::check_versions(nvrtc, Target::h200(), 11080),
                      Contains("newer than the driver, which loads nothing beyond CUDA 11.8"));
    runtime::check_versions(nvrtc, Target::h200(), nvrtc.version() / 1000 * 1000);
    runtime::check_versions(nvrtc, Target::b200(), 0);
}

TEST_CASE("a setting that names no compiler is an error, not a reason to look elsewhere", "[.no-nvrtc]") {
    CounterSet counters;
    try {
        Compiler::shared().obtain("duplicate", copy_text, Target::h200(), counters);
        FAIL("it compiled");
    } catch (const CompileError& error) {
        CHECK_THAT(error.what(),
                   Contains("kernel duplicate cannot be compiled: TESSERA_NVRTC is \"/nowhere/libnvrtc.so\", where "
                            "there is no libnvrtc; correct it, or unset it"));
    }
    CHECK_FALSE(test::has_mapped("libnvrtc"));
}

TEST_CASE("the setting for the compiler is obeyed") {
    CHECK(test::passes_in_new_process("[.no-nvrtc]", "TESSERA_NVRTC=/nowhere/libnvrtc.so"));
}

TEST_CASE("in a folder the library of CUDA 13 is preferred, then 12, then any") {
    const test::ScratchFolder folder;
    const std::filesystem::path path = folder.path();
    CHECK_FALSE(runtime::nvrtc_in(path));
    for (const char* name : {"libnvrtc.so.11.2", "libnvrtc.so.12", "libnvrtc.so.13"}) {
        std::ofstream(path / name) << "x";
        CHECK(runtime::nvrtc_in(path).value() == path / name);
    }
    CHECK_FALSE(runtime::nvrtc_in(path / "missing"));
}

TEST_CASE("child: the search", "[.search]") {
    CHECK(runtime::search_nvrtc().path->native() == std::getenv("EXPECTED_PATH"));
}

TEST_CASE("a library under its usual name is found before one of another version in an earlier folder") {
    const test::ScratchFolder a, b;
    std::ofstream(a.path() + "/libnvrtc.so.11.2") << "x";
    std::ofstream(b.path() + "/libnvrtc.so.13") << "x";
    const std::string folders = "-u TESSERA_NVRTC LD_LIBRARY_PATH=" + a.path() + ":" + b.path();
    CHECK(test::passes_in_new_process("[.search]", folders + " EXPECTED_PATH=" + b.path() + "/libnvrtc.so.13"));
}

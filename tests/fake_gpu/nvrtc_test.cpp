#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/base/error.hpp"
#include "runtime/compile_error.hpp"
#include "runtime/compiler.hpp"
#include "runtime/cubin.hpp"
#include "tests/fake_gpu/support.hpp"
#include "tests/runtime/child.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using runtime::Compiler;
using runtime::CounterSet;
using test::fake_nvrtc;

namespace {

constexpr int driver_13_0 = 13000;
const char* const text = "extern \"C\" __global__ void one() {}\n";

runtime::Nvrtc loaded_as(int major, int minor, std::initializer_list<int> architectures) {
    fake::NvrtcControl& c = fake_nvrtc();
    const int before[] = {c.major, c.minor, c.architectures[0], c.architectures[1], c.architecture_count};
    c.major = major, c.minor = minor, c.architecture_count = 0;
    for (int sm : architectures) c.architectures[c.architecture_count++] = sm;
    runtime::Nvrtc nvrtc(*runtime::nvrtc_search().path);
    c.major = before[0], c.minor = before[1];
    c.architectures[0] = before[2], c.architectures[1] = before[3], c.architecture_count = before[4];
    return nvrtc;
}

template <class Call>
std::string said(Call&& call) {
    try {
        call();
    } catch (const CompileError& error) {
        return error.what();
    }
    return "nothing";
}

/// What a compilation says that ends with `result` and `log`.
std::string said_with(int result, const char* log) {
    fake_nvrtc().result = result, fake_nvrtc().log = log;
    Compiler compiler(runtime::CacheSettings{false, {}, 1});
    CounterSet counters;
    const std::string what = said([&] { compiler.obtain("one", text, Target::b200(), counters, driver_13_0); });
    fake_nvrtc().result = 0, fake_nvrtc().log = "";
    return what;
}

std::string facts(const char* driver, const char* nvrtc, const char* target) {
    return std::string("(driver: ") + driver + "; NVRTC: " + nvrtc + " at " + FAKE_NVRTC + "; target: " + target + ")";
}

}  // namespace

TEST_CASE("an NVRTC that is too old for the target is named with what it knows and the cure") {
    const runtime::Nvrtc old = loaded_as(12, 4, {80, 90});
    CHECK(said([&] { runtime::check_versions(old, Target::b200(), driver_13_0); }) ==
          "NVRTC CUDA 12.4 is too old for sm_100a: it knows 80, 90; install a newer one that the driver follows, such "
          "as the Python wheel nvidia-cuda-nvrtc==13.0.88, and name its folder in TESSERA_NVRTC " +
              facts("CUDA 13.0", "CUDA 12.4", "sm_100a"));
    runtime::check_versions(old, Target::h200(), driver_13_0);
}

TEST_CASE("an NVRTC that is newer than the driver is named with which of them to change") {
    const runtime::Nvrtc young = loaded_as(14, 1, {90, 100});
    CHECK(said([&] { runtime::check_versions(young, Target::h200(), driver_13_0); }) ==
          "NVRTC CUDA 14.1 is newer than the driver, which loads nothing beyond CUDA 13.0: upgrade the driver, or name "
          "an NVRTC of its version in TESSERA_NVRTC " +
              facts("CUDA 13.0", "CUDA 14.1", "sm_90a"));
    runtime::check_versions(young, Target::h200(), 0);  // without a driver there is nothing to fit
    runtime::check_versions(loaded_as(13, 2, {90}), Target::h200(), driver_13_0);  // a minor version is no bar
}

TEST_CASE("missing builtins are named, with the folder they belong into") {
    const std::string folder = std::filesystem::path(FAKE_NVRTC).parent_path().native();
    const std::string expected =
        "NVRTC CUDA 13.0 does not find its builtins, the library libnvrtc-builtins.so of its very version: put it "
        "into " +
        folder + ", from where NVRTC came, or name a complete NVRTC in TESSERA_NVRTC; it says: ";
    const std::string end = " " + facts("CUDA 13.0", "CUDA 13.0", "sm_100a");
    CHECK(said_with(7, "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n  Make sure …") ==
          expected + "nvrtc: error: failed to open libnvrtc-builtins.so.13.0." + end);
    CHECK(said_with(7, "") == expected + "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE" + end);
}

TEST_CASE("an NVRTC that does not know an option says which version is needed") {
    CHECK_THAT(said_with(5, ""), Contains("NVRTC CUDA 13.0 does not know one of the options "
                                          "--gpu-architecture=sm_100a --std=c++17") &&
                                     Contains("Tessera needs 12.0 (12.8 for sm_100a) or newer; name one in "
                                              "TESSERA_NVRTC") &&
                                     Contains(facts("CUDA 13.0", "CUDA 13.0", "sm_100a")));
}

TEST_CASE("a text that is wrong stays the text's error") {
    const std::string what = said_with(6, "writer.cpp(12): error: no such thing\n          x = y;\n          ^\n");
    CHECK_THAT(what, Contains("kernel one does not compile for sm_100a: NVRTC_ERROR_COMPILATION\n"
                              "  writer.cpp(12): error: no such thing"));
    const std::string kept = what.substr(what.find("text:     ") + 10);
    std::filesystem::remove_all(std::filesystem::path(kept).parent_path());
}

TEST_CASE("child: with line information", "[.line-information]") {
    const std::filesystem::path folder = std::getenv("EXPECTED_FOLDER");
    Compiler& compiler = Compiler::shared();
    CounterSet counters;
    const auto made = compiler.obtain("one", text, Target::h200(), counters);
    const std::filesystem::path source = made->source;
    CHECK(source.parent_path() == folder);
    CHECK(source.filename().native().starts_with("one-sm_90a-"));
    CHECK(fake_nvrtc().last_text == "#line 1 \"" + source.native() + "\"\n" + text);
    std::stringstream content;
    content << std::ifstream(source).rdbuf();
    CHECK(content.str() == text);
    CHECK(made->cuda_text == text);
    // Found again: the file is there again, too, under the same name and key.
    std::filesystem::remove(source);
    Compiler other(runtime::CacheSettings::from_environment());
    CHECK(other.obtain("one", text, Target::h200(), counters)->key == made->key);
    CHECK(counters.values().disk_hits == 1);
    CHECK(std::filesystem::exists(source));
}

TEST_CASE("with line information the text lies under the name that the machine code gives (A105)") {
    const test::ScratchFolder cache, named;
    const std::string on = "TESSERA_LINEINFO=on TESSERA_CACHE=on TESSERA_CACHE_DIR=" + cache.path() + "/made ";
    CHECK(test::passes_in_new_process("[.line-information]", on + "EXPECTED_FOLDER=" + cache.path() + "/made/source"));
    CHECK(test::passes_in_new_process("[.line-information]",
                                      on + "TESSERA_KEEP_SOURCE=" + named.path() + " EXPECTED_FOLDER=" + named.path()));
    const auto mode = std::filesystem::status(cache.path() + "/made").permissions();
    CHECK((mode & std::filesystem::perms::others_all) == std::filesystem::perms::none);
}

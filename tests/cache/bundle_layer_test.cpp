// The order in which a kernel is looked for: memory, cache folder, bundle, compiler; with and without one.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "dsl/base/error.hpp"
#include "runtime/cache/transfer.hpp"
#include "runtime/compiler.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tests/cache/support.hpp"

using namespace tessera;
using namespace tessera::runtime;
using namespace tessera::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

const std::string text = "extern \"C\" __global__ void k(float* x) { x[threadIdx.x] *= 2.0f; }\n";

CacheKey key_of(const std::string& compiler) {
    return make_key(text, "sm_90a", compiler, Compiler::options_for(Target::h200()));
}

/// A bundle in which `k` is known by its log: no NVRTC made it.
fs::path bundle_with_k(const fs::path& folder) {
    CubinCache cache({true, folder / "other machine", 1 << 20});
    CachedCubin compiled = sample_compilation(1);
    compiled.kernel = "k";
    compiled.log = "from the bundle";
    cache.publish(key_of("build-id:of another NVRTC"), compiled);
    export_bundle(cache, (folder / "kernels.bundle").string(), false);
    return folder / "kernels.bundle";
}

}  // namespace

TEST_CASE("bundle: asked after memory and folder, before the compiler") {
    TemporaryFolder folder;
    CacheSettings settings{true, folder.path() / "cache", 1 << 20, bundle_with_k(folder.path())};
    Compiler compiler(settings);
    CounterSet counters;
    const auto first = compiler.obtain("k", text, Target::h200(), counters);
    CHECK(first->log == "from the bundle");
    CHECK(first->from_bundle);
    CHECK(compiler.obtain("k", text, Target::h200(), counters) == first);
    CHECK(counters.values().bundle_hits == 1);
    CHECK(counters.values().memory_hits == 1);
    CHECK(counters.values().misses == 0);
    CHECK_FALSE(fs::exists(folder.path() / "cache"));  // what the bundle has is kept in no other place
    if (!nvrtc_search().path) return;

    CachedCubin kept = sample_compilation(2);
    kept.kernel = "k";
    kept.log = "from the folder";
    CubinCache(settings).publish(key_of(nvrtc_search().identity), kept);
    Compiler next(settings);
    CHECK(next.obtain("k", text, Target::h200(), counters)->log == "from the folder");
    CHECK(counters.values().disk_hits == 1);

    CacheSettings off = settings;
    off.enabled = false;
    Compiler without_folder(off);
    CHECK(without_folder.obtain("k", text, Target::h200(), counters)->log == "from the bundle");
}

TEST_CASE("bundle: what the driver refuses is compiled here, once, and kept in the folder") {
    if (!nvrtc_search().path) {
        WARN("not run: there is no libnvrtc on this machine");
        return;
    }
    TemporaryFolder folder;
    const CacheSettings settings{true, folder.path() / "cache", 1 << 20, bundle_with_k(folder.path())};
    Compiler compiler(settings);
    CounterSet counters;
    const auto refused = compiler.obtain("k", text, Target::h200(), counters);
    const auto made = compiler.replace(*refused, counters);
    CHECK(compiler.replace(*refused, counters) == made);
    CHECK(compiler.obtain("k", text, Target::h200(), counters) == made);
    CHECK_FALSE(made->from_bundle);
    CHECK_THAT(made->log, Contains("registers"));
    CHECK(made->key == refused->key);
    CHECK(counters.values().compiles == 1);
    Compiler next(settings);
    CHECK(next.obtain("k", text, Target::h200(), counters)->cubin == made->cubin);
    CHECK(counters.values().disk_hits == 1);
}

TEST_CASE("child: a bundle without NVRTC", "[.child]") {
    REQUIRE_FALSE(nvrtc_search().path);
    CounterSet counters;
    CHECK(Compiler::shared().obtain("k", text, Target::h200(), counters)->log == "from the bundle");
    CHECK(counters.values().bundle_hits == 1);
    CHECK(counters.values().compiles == 0);
    try {
        Compiler::shared().obtain("k", text, Target::b200(), counters);
        FAIL("it compiled");
    } catch (const CompileError& error) {
        CHECK_THAT(error.what(), Contains("kernel k cannot be compiled") && Contains("TESSERA_NVRTC") &&
                                     Contains("kernels.bundle does not serve it for sm_100a: add it with"));
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) CHECK(line.find("libnvrtc") == std::string::npos);
}

TEST_CASE("bundle: serves where there is no NVRTC, and names what it lacks") {
    TemporaryFolder folder;
    const auto result =
        Child("child: a bundle without NVRTC", {{"TESSERA_CACHE_BUNDLE", bundle_with_k(folder.path()).string()},
                                                {"TESSERA_NVRTC", "/nowhere"},
                                                {"TESSERA_CACHE_DIR", (folder.path() / "cache").string()}})
            .wait();
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK(result.warnings() == 0);
    CHECK_FALSE(fs::exists(folder.path() / "cache"));
}

TEST_CASE("child: a bundle that is not there", "[.child]") {
    CounterSet counters;
    for (const char* name : {"k", "l"})
        CHECK_FALSE(
            Compiler::shared()
                .obtain(name, std::string("extern \"C\" __global__ void ") + name + "() {}", Target::h200(), counters)
                ->from_bundle);
}

TEST_CASE("bundle: one that is not there costs one warning, and the kernel is compiled") {
    if (!nvrtc_search().path) return;
    TemporaryFolder folder;
    const auto result =
        Child("child: a bundle that is not there", {{"TESSERA_CACHE_BUNDLE", (folder.path() / "none").string()},
                                                    {"TESSERA_CACHE_DIR", (folder.path() / "cache").string()}})
            .wait();
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK(result.warnings() == 1);
    CHECK_THAT(result.output, Contains("cannot be opened (No such file") && Contains("TESSERA_CACHE_BUNDLE"));
}

TEST_CASE("bundle: the setting, else tessera.bundle beside the program") {
    ScopedEnvironment unset{{"TESSERA_CACHE_BUNDLE", ""}};
    const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / "tessera.bundle";
    REQUIRE_FALSE(fs::exists(beside));
    CHECK(CacheSettings::from_environment().bundle.empty());
    TemporaryFolder folder;
    ScopedEnvironment set{{"TESSERA_CACHE_BUNDLE", (folder.path() / "b").string()}};
    CHECK(CacheSettings::from_environment().bundle == folder.path() / "b");
}

TEST_CASE("child: a bundle beside the program", "[.child]") {
    const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
    CHECK(CacheSettings::from_environment().bundle == folder / "tessera.bundle");
}

TEST_CASE("bundle: one that lies beside the program is found") {
    ScopedEnvironment unset{{"TESSERA_CACHE_BUNDLE", ""}};
    TemporaryFolder folder;
    const fs::path program = folder.path() / "program";
    fs::copy_file("/proc/self/exe", program);
    write_file(folder.path() / "tessera.bundle", "");
    const std::string command = "'" + program.string() + "' 'child: a bundle beside the program' >/dev/null";
    CHECK(std::system(command.c_str()) == 0);
    fs::remove(folder.path() / "tessera.bundle");
    CHECK(std::system(command.c_str()) != 0);
}

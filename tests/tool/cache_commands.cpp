// `tessera cache …` as a user types it.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/cache/bundle.hpp"
#include "runtime/cache/cubin_cache.hpp"
#include "runtime/nvrtc/find.hpp"
#include "tests/tool/run_command.hpp"
#include "tests/tool/support.hpp"
#include "tools/tessera/units.hpp"
#include "tools/tessera/warm_list.hpp"

namespace tessera::tool_test {
namespace {

using Catch::Matchers::Contains;

/// A setting until the end of the scope.
class Setting {
public:
    Setting(const char* name, const std::string& value) : name_(name) {
        if (const char* old = std::getenv(name)) before_ = old;
        ::setenv(name, value.c_str(), 1);
    }
    ~Setting() { ::setenv(name_, before_.c_str(), 1); }
    Setting(const Setting&) = delete;
    Setting& operator=(const Setting&) = delete;

private:
    const char* name_;
    std::string before_;  // empty is unset
};

/// An empty cache of its own.
struct OwnCache {
    Folder folder;
    Setting place{"TESSERA_CACHE_DIR", folder.file("cache")};

    /// Publishes kernels 0 … count − 1, whose cubin is one in name only.
    void fill(int count) const {
        runtime::CubinCache cache;
        for (int n = 0; n < count; ++n) {
            runtime::CachedCubin compiled;
            compiled.kernel = "kernel_" + std::to_string(n);
            for (const char c : {'\x7f', 'E', 'L', 'F'}) compiled.cubin.push_back(static_cast<std::byte>(c));
            compiled.cubin.resize(20'000);
            cache.publish(runtime::make_key(compiled.kernel, "sm_90a", "build-id:1", {}), compiled);
        }
    }
    std::string list(const std::string& text) const {
        put(folder.file("list"), text);
        return folder.file("list");
    }
};

TEST_CASE("cache ls, verify and clear look after the folder") {
    const OwnCache own;
    CHECK_THAT(tessera({"cache", "ls"}).output, Catch::StartsWith("0 entries"));
    own.fill(2);
    const Outcome listed = tessera({"cache", "ls"});
    CHECK_THAT(listed.output, Contains("sm_90a") && Contains("kernel_0") && Contains("kernel_1"));
    CHECK_THAT(listed.output, Contains("2 entries, "));
    CHECK(tessera({"cache", "verify"}).code == 0);
    const Outcome clear = tessera({"cache", "clear"});
    CHECK(clear.code == 0);
    CHECK_THAT(clear.output, Catch::StartsWith("removed 2 entries"));
    const Setting size("TESSERA_CACHE_SIZE", "many");
    const Outcome bad = tessera({"cache", "ls"});
    CHECK(bad.code == 1);
    CHECK_THAT(bad.error, Contains("TESSERA_CACHE_SIZE"));
    CHECK(tessera({"doctor"}).code == 0);
}

TEST_CASE("cache prune keeps what the limits allow") {
    const OwnCache own;
    own.fill(5);
    CHECK_THAT(tessera({"cache", "prune", "--age", "1d"}).output,
               Catch::StartsWith("removed 0 entries (0 bytes), kept 5"));
    CHECK_THAT(tessera({"cache", "prune", "--size", "50K"}).output, Catch::StartsWith("removed 3 entries"));
    CHECK_THAT(tessera({"cache", "ls"}).output, Contains("2 entries"));
    CHECK_THAT(tessera({"cache", "prune"}).error, Contains("--size 512M, --age 30d, or both"));
    CHECK_THAT(tessera({"cache", "prune", "--age", "3"}).error, Contains("--age \"3\" is no time"));
    CHECK_THAT(tessera({"cache", "prune", "--size", "3X"}).error, Contains("--size \"3X\" is no number of bytes"));
}

TEST_CASE("units of sizes and times") {
    CHECK(tool::bytes_of("3K", "--size") == 3072);
    CHECK(tool::seconds_of("0s", "--age") == 0);
    CHECK(tool::seconds_of("90m", "--age") == 5400);
    CHECK(tool::seconds_of("2h", "--age") == 7200);
    CHECK(tool::seconds_of("30d", "--age") == 2'592'000);
    CHECK(tool::seconds_of("2w", "--age") == 1'209'600);
    for (const char* text : {"", "d", "-1d", "1.5d", "1dd", "1 d", "99999999999999999999d", "9223372036854775807w"}) {
        INFO(text);
        CHECK_THROWS_AS(tool::seconds_of(text, "--age"), UsageError);
    }
    CHECK(tool::bytes_text(9'999) == "9999 bytes");
    CHECK(tool::bytes_text(123'456) == "123.5 kB");
    CHECK(tool::bytes_text(12'345'678) == "12.3 MB");
}

TEST_CASE("cache export and import move kernels from cache to cache") {
    const OwnCache own;
    own.fill(3);
    const std::string file = own.folder.file("kernels.bundle"), below = own.folder.file("kernels/");
    const Outcome exported = tessera({"cache", "export", file});
    CHECK(exported.code == 0);
    CHECK_THAT(exported.output, Catch::StartsWith("3 kernels, 60.") && Contains(" kB, written to " + file));
    CHECK_THAT(tessera({"cache", "export", file}).error, Contains("exists already"));
    CHECK(tessera({"cache", "export", file, "--force"}).code == 0);
    CHECK(tessera({"cache", "export", below}).code == 0);
    for (const std::string& bundle : {file, below}) {
        const OwnCache other;
        CHECK_THAT(tessera({"cache", "import", bundle}).output, Catch::StartsWith("3 kernels imported, 0 there"));
        CHECK_THAT(tessera({"cache", "import", bundle}).output, Catch::StartsWith("0 kernels imported, 3 there"));
        CHECK(tessera({"cache", "verify"}).code == 0);
        const Setting setting("TESSERA_CACHE_BUNDLE", bundle);
        CHECK_THAT(tessera({"doctor"}).output, Contains("3 kernels, 0 damaged"));
    }
    CHECK(tessera({"cache", "import", own.folder.file("none")}).code == 1);
    std::filesystem::permissions(own.folder.path(), std::filesystem::perms::others_write,
                                 std::filesystem::perm_options::add);
    CHECK_THAT(tessera({"cache", "export", file, "--force"}).output,
               Contains("where it lies now it would not be used") && Contains("chmod go-w"));
}

TEST_CASE("cache warm compiles a list, once") {
    if (!runtime::nvrtc_search().path) {
        WARN("not run: there is no libnvrtc on this machine");
        return;
    }
    const OwnCache own;
    const std::string list = own.list(
        "# two kernels\n\nbatched_transpose\n  per_token_cast in=bf16 hidden=512  # with options\nbatched_transpose\n");
    const Outcome first = tessera({"cache", "warm", list, "--arch", "sm_90a,sm_100a", "--jobs", "2"});
    INFO(first.error);
    CHECK(first.code == 0);
    CHECK_THAT(first.output, Catch::StartsWith("6 kernels for sm_90a and sm_100a: 4 compiled, 2 there already; ") &&
                                 Contains("2 at a time"));
    CHECK_THAT(tessera({"cache", "ls"}).output, Contains("4 entries"));
    for (const char* once_or_twice : {"sm_100a", "sm_100a,sm_100a"})
        CHECK_THAT(tessera({"cache", "warm", list, "--arch", once_or_twice}).output,
                   Catch::StartsWith("3 kernels for sm_100a: 0 compiled, 3 there already; "));

    // What is exported then serves where there is no compiler.
    const std::string file = own.folder.file("kernels.bundle");
    CHECK(tessera({"cache", "export", file}).code == 0);
    runtime::Bundle bundle(file);
    int kernels = 0;
    CHECK(bundle.each([&kernels](const runtime::KeptEntry&) { ++kernels; }) == 0);
    CHECK(kernels == 4);
}

TEST_CASE("the list of the examples is right") {
    std::ifstream text(std::string(TESSERA_EXAMPLES) + "/kernels.list");
    const auto items = tool::read_warm_list(text, "kernels.list");
    CHECK(items.size() == 4);
    for (const tool::WarmItem& item : items)
        for (const Target& target : {Target::h200(), Target::b200()}) (void)item.kernel->program(item.args, target);
}

TEST_CASE("cache warm names the line that is wrong, and compiles nothing") {
    const OwnCache own;
    const auto error_of = [&](const std::string& text) {
        const std::string list = own.list(text);
        const Outcome outcome = tessera({"cache", "warm", list, "--arch", "sm_90a"});
        CHECK(outcome.code == 1);
        CHECK(outcome.output.empty());
        CHECK_THAT(outcome.error, Catch::StartsWith("tessera: " + list));
        return outcome.error.substr(std::min(outcome.error.size(), ("tessera: " + list).size()));
    };
    CHECK_THAT(error_of("batched_transpose\n\nfoo\n"), Catch::StartsWith(":3: there is no kernel \"foo\""));
    CHECK_THAT(error_of("per_token_cast hidden\n"), Catch::StartsWith(":1: \"hidden\" is no option"));
    CHECK_THAT(error_of("#\nper_token_cast hidden=many\n"), Catch::StartsWith(":2: per_token_cast: the option hidden"));
    CHECK_THAT(error_of("per_token_cast colour=red\n"), Catch::StartsWith(":1: ") && Contains("colour"));
    CHECK_THAT(error_of("per_token_cast hidden=4 hidden=5\n"), Catch::StartsWith(":1: ") && Contains("twice"));
    CHECK_THAT(error_of("batched_transpose\nper_token_cast hidden=-5\n"), Catch::StartsWith(":2: ") && Contains("-5"));
    CHECK_THAT(error_of("# nothing\n"), Catch::StartsWith(" names no kernel"));
    CHECK(tessera({"cache", "warm", own.folder.path().string()}).error.find(" is a folder; name a file with a line") !=
          std::string::npos);
    CHECK(tessera({"cache", "warm", own.folder.file("none")}).error ==
          "tessera: the list " + own.folder.file("none") + " cannot be read; check the path\n");
    CHECK_THAT(tessera({"cache", "warm", own.list("batched_transpose\n"), "--arch", "sm_80"}).error,
               Contains("there is no target \"sm_80\""));
    CHECK_THAT(tessera({"cache", "ls"}).output, Catch::StartsWith("0 entries"));
    const Setting off("TESSERA_CACHE", "off");
    CHECK_THAT(tessera({"cache", "warm", own.list("batched_transpose\n")}).error, Contains("switched off"));
}

}  // namespace
}  // namespace tessera::tool_test

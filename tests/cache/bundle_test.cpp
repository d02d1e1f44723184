#include "runtime/cache/bundle.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "dsl/base/error.hpp"
#include "runtime/cache/cubin_cache.hpp"
#include "runtime/cache/transfer.hpp"
#include "tests/cache/support.hpp"

using namespace tessera;
using namespace tessera::runtime;
using namespace tessera::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// The key of sample_key(n) as another NVRTC has it.
CacheKey by_another_compiler(int n, const std::string& identity = "build-id:5678") {
    return make_key("kernel number " + std::to_string(n), "sm_90a", identity, {});
}

/// A cache with the samples 0 … kernels − 1, exported.
struct Exported {
    TemporaryFolder folder;
    CubinCache cache{{true, folder.path() / "cache", 1 << 20}};
    fs::path file = folder.path() / "kernels.bundle";
    fs::path below = folder.path() / "kernels";
    explicit Exported(int kernels = 5) {
        for (int n = 0; n < kernels; ++n) cache.publish(sample_key(n), sample_compilation(n));
        CHECK(export_bundle(cache, file.string(), false).exported == kernels);
        CHECK(export_bundle(cache, below.string() + "/", false).exported == kernels);
    }
};

}  // namespace

TEST_CASE("bundle: a file and a folder serve every kernel of the cache, whichever NVRTC asks, and none does") {
    const Exported exported;
    for (const fs::path& path : {exported.file, exported.below}) {
        Bundle bundle(path);
        for (int n = 0; n < 5; ++n) {
            CHECK(same(bundle.find(sample_key(n)).value(), sample_compilation(n)));
            CHECK(same(bundle.find(by_another_compiler(n)).value(), sample_compilation(n)));
            CHECK(same(bundle.find(by_another_compiler(n, "")).value(), sample_compilation(n)));
        }
        CHECK_FALSE(bundle.find(sample_key(5)));
        CHECK_FALSE(bundle.find(make_key("kernel number 1", "sm_100a", "build-id:1234", {})));
        const std::vector<std::string> option = {"--fmad=false"};
        CHECK_FALSE(bundle.find(make_key("kernel number 1", "sm_90a", "build-id:1234", option)));
        CHECK(bundle.problem().empty());
    }
    CHECK(files_below(exported.below).size() == 5);
}

TEST_CASE("bundle: a file that another program wrote after the description of the format") {
    TemporaryFolder folder;
    const fs::path file = folder.path() / "b";
    write_file(file, read_file(fs::path(TESSERA_CACHE_SEEDS) / "bundle" / "three"));
    Bundle bundle(file);
    std::string kernels;
    CHECK(bundle.each([&kernels](const KeptEntry& entry) { kernels += entry.compiled.kernel; }) == 0);
    std::sort(kernels.begin(), kernels.end());
    CHECK(kernels == "abc");
    const std::vector<std::string> options = {"--fmad=false"};
    for (const char* text : {"a", "b", "c"})
        CHECK(bundle.find(make_key(text, "sm_90a", "build-id:any", options)).value().kernel == text);
    CHECK_FALSE(bundle.find(make_key("d", "sm_90a", "build-id:any", options)));
}

TEST_CASE("bundle: of two compilations of a text the one used last is exported; damaged entries are left out") {
    TemporaryFolder folder;
    CubinCache cache({true, folder.path() / "cache", 1 << 20});
    cache.publish(sample_key(1), sample_compilation(1));
    cache.publish(by_another_compiler(1), sample_compilation(11));
    cache.publish(sample_key(2), sample_compilation(2));
    const fs::path first = place_of(folder.path() / "cache", sample_key(1));
    REQUIRE(real_file_ops().set_stamp_of_path(first.c_str(), 1'000) == 0);
    std::string bytes = read_file(place_of(folder.path() / "cache", sample_key(2)));
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(place_of(folder.path() / "cache", sample_key(2)), bytes);
    const std::string file = (folder.path() / "b").string();
    const ExportResult result = export_bundle(cache, file, false);
    CHECK(result.exported == 1);
    CHECK(result.same_kernel == 1);
    CHECK(result.unusable == 1);
    Bundle bundle(file);
    CHECK(same(bundle.find(sample_key(1)).value(), sample_compilation(11)));
    CHECK_FALSE(bundle.find(sample_key(2)));
}

TEST_CASE("bundle: imported entries are those of the cache that was exported") {
    const Exported exported;
    for (const fs::path& path : {exported.file, exported.below, exported.folder.path() / "cache"}) {
        TemporaryFolder other;
        CubinCache cache({true, other.path(), 1 << 20});
        cache.publish(sample_key(3), sample_compilation(3));
        const ImportResult result = import_bundle(cache, path.string());
        CHECK(result.imported == 4);
        CHECK(result.there == 1);
        CHECK(result.failed == 0);
        CHECK(result.unsound == 0);
        for (int n = 0; n < 5; ++n) {
            CHECK(read_file(place_of(other.path(), sample_key(n))) ==
                  read_file(place_of(exported.folder.path() / "cache", sample_key(n))));
            CHECK_FALSE(cache.load(by_another_compiler(n)));
        }
    }
}

TEST_CASE("bundle: what cannot be exported or imported is refused with the cure, and leaves nothing") {
    const Exported exported;
    CHECK_THROWS_AS(export_bundle(exported.cache, exported.file.string(), false), UsageError);
    CHECK(export_bundle(exported.cache, exported.file.string(), true).exported == 5);
    CHECK_THROWS_WITH(export_bundle(exported.cache, (exported.folder.path() / "no" / "where").string(), false),
                      Contains("create the folder first"));
    TemporaryFolder empty;
    CubinCache nothing({true, empty.path() / "cache", 1 << 20});
    CHECK_THROWS_WITH(export_bundle(nothing, (empty.path() / "b").string(), false), Contains("nothing to export"));
    CHECK_THROWS_WITH(import_bundle(nothing, (empty.path() / "b").string()), Contains("cannot be opened (No such"));
    write_file(empty.path() / "b", "some text");
    CHECK_THROWS_WITH(import_bundle(nothing, (empty.path() / "b").string()), Contains("is damaged, or of another"));
    CHECK(files_below(empty.path()) == std::vector<std::string>{"b"});
}

TEST_CASE("bundle: cut or changed at any place, it serves what was put in or nothing") {
    const Exported exported(2);
    const std::string good = read_file(exported.file);
    const fs::path file = exported.folder.path() / "spoiled";
    int served = 0, refused = 0;
    const auto check = [&](const std::string& bytes) {
        write_file(file, bytes);
        Bundle bundle(file);
        for (int n = 0; n < 2; ++n) {
            const auto found = bundle.find(sample_key(n));
            ++(found ? served : refused);
            if (found) REQUIRE(same(*found, sample_compilation(n)));
        }
    };
    for (std::size_t bytes = 0; bytes < good.size(); bytes += 3) check(good.substr(0, bytes));
    CHECK(served == 0);
    check(good + "x");
    CHECK(served == 0);
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bytes = good;
        bytes[at] = static_cast<char>(bytes[at] ^ (at % 2 ? 0x80 : 0x01));
        check(bytes);
    }
    CHECK(served > 0);  // one entry is damaged, the other is served
    CHECK(served < static_cast<int>(good.size()));
}

TEST_CASE("bundle: an entry of another kernel in a folder's place is not served") {
    const Exported exported(2);
    const auto files = files_below(exported.below);
    REQUIRE(files.size() == 2);
    const std::string first = read_file(exported.below / files[0]);
    write_file(exported.below / files[1], first);
    Bundle bundle(exported.below);
    CHECK(bundle.find(sample_key(0)).has_value() != bundle.find(sample_key(1)).has_value());
}

TEST_CASE("bundle: nothing is read from what others own or can write") {
    const Exported exported;
    const auto problem = [](const fs::path& path) {
        Bundle bundle(path);
        CHECK(bundle.find(sample_key(1)).has_value() == bundle.problem().empty());
        return bundle.problem();
    };
    CHECK(problem(exported.file).empty());
    CHECK(problem(exported.below).empty());
    SECTION("a file, a folder that others can write") {
        for (const mode_t mode : {0664, 0646}) {
            REQUIRE(::chmod(exported.file.c_str(), mode) == 0);
            CHECK_THAT(problem(exported.file), Contains("can be written by other users"));
        }
        REQUIRE(::chmod(exported.below.c_str(), 0775) == 0);
        CHECK_THAT(problem(exported.below), Contains("can be written by other users"));
    }
    SECTION("the folder in which the file can be replaced") {
        REQUIRE(::chmod(exported.folder.path().c_str(), 0777) == 0);
        CHECK_THAT(problem(exported.file), Contains("the folder of the bundle") && Contains("by other users"));
        REQUIRE(::chmod(exported.folder.path().c_str(), 0700) == 0);
    }
    SECTION("a file in a folder bundle that others can write") {
        const auto files = files_below(exported.below);
        for (const std::string& name : files) REQUIRE(::chmod((exported.below / name).c_str(), 0666) == 0);
        Bundle bundle(exported.below);
        CHECK_FALSE(bundle.find(sample_key(1)));
    }
    SECTION("a link leads to it, and what it leads to is examined") {
        const fs::path link = exported.folder.path() / "link";
        fs::create_symlink(exported.file, link);
        CHECK(problem(link).empty());
        REQUIRE(::chmod(exported.file.c_str(), 0666) == 0);
        CHECK_THAT(problem(link), Contains("can be written by other users"));
    }
    SECTION("something else in its place") {
        const fs::path pipe = exported.folder.path() / "pipe";
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        CHECK_FALSE(problem(pipe).empty());
    }
}

TEST_CASE("child: a bundle of another user", "[.child]") {
    become_ordinary_user();
    Bundle bundle(passed("TEST_BUNDLE"));
    const bool found = bundle.find(sample_key(1)).has_value();
    CHECK(found == (passed("TEST_EXPECTED") == "served"));
    CHECK(bundle.problem().find("belongs to another user") ==
          (found ? std::string::npos : bundle.problem().find("bel")));
}

TEST_CASE("bundle: root's is served to everybody, another user's to nobody else") {
    if (::geteuid() != 0) return;  // only root can become somebody else and give files away
    const Exported exported;
    REQUIRE(::chmod(exported.folder.path().c_str(), 0755) == 0);
    const auto run = [](const fs::path& path, const char* expected) {
        const auto result =
            Child("child: a bundle of another user", {{"TEST_BUNDLE", path.string()}, {"TEST_EXPECTED", expected}})
                .wait();
        INFO(result.output);
        CHECK(result.exit_code == 0);
        CHECK(result.warnings() == (std::string(expected) == "served" ? 0 : 1));
    };
    run(exported.file, "served");
    run(exported.below, "served");
    REQUIRE(::chown(exported.file.c_str(), 12345, 12345) == 0);
    REQUIRE(::chown(exported.below.c_str(), 12345, 12345) == 0);
    run(exported.file, "refused");
    run(exported.below, "refused");
}

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <filesystem>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cache/cubin_cache.hpp"
#include "tests/cache/support.hpp"

using namespace tessera::runtime;
using namespace tessera::test;
namespace fs = std::filesystem;

namespace {

/// Everything that a program does with a cache, where publishing may fail: it must go on without an exception.
CacheStats work_with(CubinCache& cache, int kernels = 3) {
    for (int round = 0; round < 2; ++round) {
        for (int n = 0; n < kernels; ++n) {
            if (cache.load(sample_key(n))) continue;
            cache.publish(sample_key(n), sample_compilation(n, 30'000));
        }
    }
    return cache.stats();
}

ChildResult run_child(const std::string& name, std::map<std::string, std::string> values) {
    values.try_emplace("TESSERA_CACHE", "");
    values.try_emplace("TESSERA_CACHE_DIR", "");
    values.try_emplace("TESSERA_CACHE_SIZE", "");
    values.try_emplace("XDG_CACHE_HOME", "");
    return Child(name, values).wait();
}

}  // namespace

TEST_CASE("child: nothing can be kept", "[.child]") {
    if (passed("TEST_USER") == "ordinary") become_ordinary_user();
    CubinCache cache;
    const CacheStats stats = work_with(cache);
    CHECK(stats.hits == 0);
    CHECK(stats.published == 0);
    CHECK(stats.misses == 6);
}

TEST_CASE("child: everything is kept", "[.child]") {
    if (passed("TEST_USER") == "ordinary") become_ordinary_user();
    CubinCache cache;
    const CacheStats stats = work_with(cache);
    CHECK(stats.hits == 3);
    CHECK(stats.published == 3);
    CHECK(cache.settings().folder == passed("TEST_EXPECTED"));
}

TEST_CASE("folder: read-only, the program runs with one warning that names the setting (C31)") {
    TemporaryFolder folder;
    const fs::path cache = folder.path() / "cache";
    fs::create_directory(cache);
    fs::permissions(cache, static_cast<fs::perms>(0500));
    if (::geteuid() == 0) {
        REQUIRE(::chown(cache.c_str(), ordinary_user, ordinary_user) == 0);
        REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
    }
    const auto result =
        run_child("child: nothing can be kept", {{"TESSERA_CACHE_DIR", cache.string()}, {"TEST_USER", "ordinary"}});
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK(result.warnings() == 1);
    CHECK(result.output.find("TESSERA_CACHE_DIR") != std::string::npos);
    CHECK(result.output.find(cache.string() + " cannot be written (Permission denied)") != std::string::npos);
    CHECK(fs::is_empty(cache));
}

TEST_CASE("folder: a home that cannot be written, one warning (C31)") {
    TemporaryFolder home;
    REQUIRE(::chmod(home.path().c_str(), 0555) == 0);
    const auto result =
        run_child("child: nothing can be kept", {{"HOME", home.path().string()}, {"TEST_USER", "ordinary"}});
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK(result.warnings() == 1);
    CHECK(result.output.find((home.path() / ".cache/tessera").string() + " cannot be made (Permission denied)") !=
          std::string::npos);
    REQUIRE(::chmod(home.path().c_str(), 0700) == 0);
}

TEST_CASE("folder: a read-only folder still serves what it holds") {
    TemporaryFolder folder;
    const fs::path kept = folder.path() / "cache";
    {
        CubinCache cache({true, kept, 1 << 20});
        cache.publish(sample_key(0), sample_compilation(0));
    }
    FileOps ops = real_file_ops();
    ops.open = [](const char* path, int flags, mode_t mode) {
        if ((flags & O_ACCMODE) == O_RDONLY) return ::open(path, flags, mode);
        errno = EROFS;
        return -1;
    };
    ops.set_stamp_of_path = [](const char*, std::int64_t) {
        errno = EROFS;
        return -1;
    };
    CubinCache cache({true, kept, 1 << 20}, ops);
    CHECK(same(cache.load(sample_key(0)).value(), sample_compilation(0)));
}

TEST_CASE("child: a full disk", "[.child]") {
    // A file system of its own, in a name space of its own, so that it vanishes with this process.
    const std::string place = passed("TESSERA_CACHE_DIR");
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", place.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) {
        std::printf("no file system can be mounted here\n");
        return;
    }
    CubinCache cache;
    const CacheStats stats = work_with(cache, 8);
    CHECK(stats.published >= 1);
    CHECK(stats.failed >= 1);
    CHECK(stats.hits >= 1);
    CHECK(stats.damaged == 0);
    for (const std::string& file : files_below(place)) CHECK(file.find(".tmp-") == std::string::npos);
    CHECK(cache.verify().damaged.empty());
    CHECK(cache.verify().sound >= 1);
}

TEST_CASE("folder: the disk is full, the program runs with one warning (C31)") {
    TemporaryFolder folder;
    const auto result = run_child("child: a full disk", {{"TESSERA_CACHE_DIR", folder.path().string()}});
    INFO(result.output);
    CHECK(result.exit_code == 0);
    if (result.output.find("no file system can be mounted here") != std::string::npos) {
        WARN("not run: mounting needs rights; the injected faults cover a full disk");
        return;
    }
    CHECK(result.warnings() == 1);
    CHECK(result.output.find("No space left on device") != std::string::npos);
}

TEST_CASE("folder: HOME unset, the home in the user database is taken (C31)") {
    const auto home = run_child("child: settings without HOME", {{"HOME", ""}});
    INFO(home.output);
    CHECK(home.exit_code == 0);
}

TEST_CASE("child: settings without HOME", "[.child]") {
    // Nothing is published: this is the real home of whoever runs the test.
    const fs::path folder = CacheSettings::from_environment().folder;
    CHECK(folder.is_absolute());
    CHECK(folder.filename() == "tessera");
    CHECK(folder.parent_path().filename() == ".cache");
}

TEST_CASE("child: no folder at all", "[.child]") {
    CubinCache cache({true, {}, 1 << 20});
    const CacheStats stats = work_with(cache);
    CHECK(stats.published == 0);
    CHECK(stats.misses == 6);
    CHECK(cache.list().empty());
    CHECK(cache.clear() == 0);
}

TEST_CASE("folder: a user without a home, one warning (C31)") {
    const auto result = run_child("child: no folder at all", {});
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK(result.warnings() == 1);
    CHECK(result.output.find("TESSERA_CACHE_DIR") != std::string::npos);
}

TEST_CASE("folder: XDG_CACHE_HOME, a link and slashes at the end are fine, and nothing is said") {
    TemporaryFolder folder;
    fs::create_directory(folder.path() / "real");
    fs::permissions(folder.path() / "real", static_cast<fs::perms>(0755));
    fs::create_directory_symlink(folder.path() / "real", folder.path() / "link");
    const std::string link = (folder.path() / "link").string();
    for (const auto& [variable, value, expected] :
         {std::tuple{"XDG_CACHE_HOME", link, link + "/tessera"}, std::tuple{"TESSERA_CACHE_DIR", link, link},
          std::tuple{"TESSERA_CACHE_DIR", link + "/a/b//", link + "/a/b//"}}) {
        const auto result = run_child("child: everything is kept", {{variable, value}, {"TEST_EXPECTED", expected}});
        INFO(result.output);
        CHECK(result.exit_code == 0);
        CHECK(result.warnings() == 0);
    }
    CHECK(files_below(folder.path() / "real").size() == 9);
}

TEST_CASE("folder: one that others can write is refused, with one warning") {
    TemporaryFolder folder;
    for (const int mode : {0770, 0720, 0702, 0777}) {
        REQUIRE(::chmod(folder.path().c_str(), static_cast<mode_t>(mode)) == 0);
        const auto result = run_child("child: nothing can be kept", {{"TESSERA_CACHE_DIR", folder.path().string()}});
        INFO(result.output);
        CHECK(result.exit_code == 0);
        CHECK(result.warnings() == 1);
        CHECK(result.output.find("can be written by other users") != std::string::npos);
        CHECK(fs::is_empty(folder.path()));
    }
}

TEST_CASE("folder: another user's is refused, though it could be written") {
    TemporaryFolder folder;
    {
        CubinCache owner({true, folder.path(), 1 << 20});
        owner.publish(sample_key(0), sample_compilation(0));
    }
    FileOps ops = real_file_ops();
    ops.effective_user = [] { return ::geteuid() + 1; };
    CubinCache cache({true, folder.path(), 1 << 20}, ops);
    CHECK_FALSE(cache.load(sample_key(0)));
    cache.publish(sample_key(1), sample_compilation(1));
    CHECK(files_below(folder.path()).size() == 1);
    CHECK(cache.stats().failed == 1);
}

TEST_CASE("folder: another user's is refused in a process of another user, though it may read every entry") {
    if (::geteuid() != 0) return;  // only root can become somebody else and give files away
    for (const unsigned owner : {0u, 12345u}) {
        TemporaryFolder folder;
        const fs::path kept = folder.path() / "cache";
        CubinCache cache({true, kept, 1 << 20});
        for (int n = 0; n < 3; ++n) cache.publish(sample_key(n), sample_compilation(n, 30'000));
        REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
        REQUIRE(::chown(kept.c_str(), owner, owner) == 0);
        for (const auto& item : fs::recursive_directory_iterator(kept)) {
            REQUIRE(::chmod(item.path().c_str(), item.is_directory() ? 0755 : 0644) == 0);
            REQUIRE(::chown(item.path().c_str(), owner, owner) == 0);
        }
        REQUIRE(::chmod(kept.c_str(), 0755) == 0);
        const auto result =
            run_child("child: nothing can be kept", {{"TESSERA_CACHE_DIR", kept.string()}, {"TEST_USER", "ordinary"}});
        INFO(result.output);
        CHECK(result.exit_code == 0);
        CHECK(result.warnings() == 1);
        CHECK(result.output.find("belongs to another user (id " + std::to_string(owner) + ")") != std::string::npos);
        CHECK(files_below(kept).size() == 3);
    }
}

TEST_CASE("folder: a link to one that others can write is refused") {
    TemporaryFolder folder;
    fs::create_directory(folder.path() / "open");
    REQUIRE(::chmod((folder.path() / "open").c_str(), 0777) == 0);
    fs::create_directory_symlink(folder.path() / "open", folder.path() / "link");
    const auto result =
        run_child("child: nothing can be kept", {{"TESSERA_CACHE_DIR", (folder.path() / "link").string()}});
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK(result.warnings() == 1);
    CHECK(fs::is_empty(folder.path() / "open"));
}

TEST_CASE("folder: another user's entry in a folder of ours is not trusted") {
    if (::geteuid() != 0) return;  // only root can give a file away
    TemporaryFolder folder;
    CubinCache cache({true, folder.path(), 1 << 20});
    cache.publish(sample_key(0), sample_compilation(0));
    REQUIRE(::chown(place_of(folder.path(), sample_key(0)).c_str(), ordinary_user, ordinary_user) == 0);
    CHECK_FALSE(cache.load(sample_key(0)));
    CHECK(cache.stats().damaged == 1);
    cache.publish(sample_key(0), sample_compilation(0));
    CHECK(cache.load(sample_key(0)));
}

TEST_CASE("folder: a file, or a link to nowhere, in its place") {
    TemporaryFolder folder;
    write_file(folder.path() / "file", "data");
    fs::create_symlink(folder.path() / "nowhere", folder.path() / "link");
    for (const char* name : {"file", "link", "file/below"}) {
        const auto result =
            run_child("child: nothing can be kept", {{"TESSERA_CACHE_DIR", (folder.path() / name).string()}});
        INFO(result.output);
        CHECK(result.exit_code == 0);
        CHECK(result.warnings() == 1);
    }
    CHECK(read_file(folder.path() / "file") == "data");
}

TEST_CASE("folder: one that vanishes while it is used is made again") {
    TemporaryFolder folder;
    const fs::path kept = folder.path() / "cache";
    CubinCache cache({true, kept, 1 << 20});
    cache.publish(sample_key(0), sample_compilation(0));
    fs::remove_all(kept);
    CHECK_FALSE(cache.load(sample_key(0)));
    CHECK(cache.stats().damaged == 0);
    cache.publish(sample_key(0), sample_compilation(0));
    CHECK(cache.load(sample_key(0)));
}

TEST_CASE("folder: switched off, the disk is not touched, but care of it works") {
    TemporaryFolder folder;
    CubinCache on({true, folder.path(), 1 << 20});
    on.publish(sample_key(0), sample_compilation(0));
    CubinCache off({false, folder.path(), 1 << 20});
    CHECK_FALSE(off.load(sample_key(0)));
    off.publish(sample_key(1), sample_compilation(1));
    CHECK(files_below(folder.path()).size() == 1);
    CHECK(off.list().size() == 1);
    CHECK(off.clear() == 1);
    CHECK(files_below(folder.path()).empty());
}

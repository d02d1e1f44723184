#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>
#include <vector>

#include "runtime/cache/cubin_cache.hpp"
#include "runtime/cache/transfer.hpp"
#include "tests/cache/crowd.hpp"
#include "tests/cache/support.hpp"

using namespace tessera::runtime;
using namespace tessera::test;
namespace fs = std::filesystem;

TEST_CASE("child: publish the same eight", "[.child]") {
    CubinCache cache;
    wait_for_start();
    for (int n = 0; n < 8; ++n) {
        const auto found = cache.load(sample_key(n));
        if (found) {
            REQUIRE(same(*found, sample_compilation(n, 20'000)));
        } else {
            cache.publish(sample_key(n), sample_compilation(n, 20'000));
        }
    }
    CHECK(cache.stats().hits + cache.stats().published == 8);
    CHECK(cache.stats().failed == 0);
    CHECK(cache.stats().damaged == 0);
}

TEST_CASE("processes: 16 start at once on an empty folder, one entry a key, no temporary (C29)") {
    for (const Medium medium : {Medium::disk, Medium::memory, Medium::memory}) {
        TemporaryFolder folder(medium);
        const fs::path kept = folder.path() / "a" / "cache";
        Crowd crowd("child: publish the same eight", 16, {{"TESSERA_CACHE_DIR", kept.string()}, {"TESSERA_CACHE", ""}});
        for (const ChildResult& result : crowd.start_and_wait()) {
            INFO(result.output);
            CHECK(result.exit_code == 0);
            CHECK(result.warnings() == 0);
        }
        std::vector<std::string> expected;
        for (int n = 0; n < 8; ++n) expected.push_back(fs::relative(place_of(kept, sample_key(n)), kept).string());
        std::sort(expected.begin(), expected.end());
        CHECK(files_below(kept) == expected);
        CubinCache cache({true, kept, 1 << 20});
        CHECK(cache.verify().sound == 8);
        for (int n = 0; n < 8; ++n) CHECK(same(cache.load(sample_key(n)).value(), sample_compilation(n, 20'000)));
    }
}

TEST_CASE("child: crowd a small cache", "[.child]") {
    CubinCache cache;
    wait_for_start();
    const int number = std::stoi(passed("TEST_NUMBER"));
    for (int i = 0; i < 120; ++i) {
        const int n = (i * 7 + number * 13) % 40;
        const auto found = cache.load(sample_key(n));
        if (found) {
            REQUIRE(same(*found, sample_compilation(n, 10'000)));
        } else {
            cache.publish(sample_key(n), sample_compilation(n, 10'000));
        }
        if (i % 50 == 49 && number == 0) cache.clear();
    }
    CHECK(cache.stats().damaged == 0);
    CHECK(cache.stats().published > 0);
}

TEST_CASE("processes: publishing, evicting and clearing at once hands out no wrong byte") {
    TemporaryFolder folder;
    Crowd crowd("child: crowd a small cache", 8,
                {{"TESSERA_CACHE_DIR", folder.path().string()}, {"TESSERA_CACHE", ""}, {"TESSERA_CACHE_SIZE", "120K"}});
    for (const ChildResult& result : crowd.start_and_wait()) {
        INFO(result.output);
        CHECK(result.exit_code == 0);
    }
    for (const std::string& file : files_below(folder.path())) CHECK(file.find(".tmp-") == std::string::npos);
    CubinCache cache({true, folder.path(), 120 * 1024});
    CHECK(cache.verify().damaged.empty());
    cache.publish(sample_key(99), sample_compilation(99, 10'000));
    std::int64_t bytes = 0;
    for (const auto& entry : cache.list()) bytes += entry.bytes;
    CHECK(bytes <= 120 * 1024);
}

TEST_CASE("threads: one cache object used by eight") {
    TemporaryFolder folder;
    const FileOps ops = ops_without_flush();
    CubinCache cache({true, folder.path(), 1 << 20}, ops);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 100; ++i) {
                const int n = (i + t * 5) % 16;
                const auto found = cache.load(sample_key(n));
                if (!found) cache.publish(sample_key(n), sample_compilation(n));
                if (found && !same(*found, sample_compilation(n))) ++wrong;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    const CacheStats stats = cache.stats();
    CHECK(stats.hits + stats.misses == 800);
    CHECK(stats.published == stats.misses);
    CHECK(stats.damaged == 0);
    CHECK(cache.list().size() == 16);
}

TEST_CASE("threads: one bundle, opened and read by eight at once") {
    TemporaryFolder folder;
    const FileOps ops = ops_without_flush();
    CubinCache cache({true, folder.path() / "cache", 1 << 20}, ops);
    for (int n = 0; n < 16; ++n) cache.publish(sample_key(n), sample_compilation(n));
    for (const std::string name : {"file", "below/"}) {
        const std::string path = (folder.path() / name).string();
        export_bundle(cache, path, false);
        Bundle bundle(path);
        std::atomic<int> wrong{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t) {
            threads.emplace_back([&, t] {
                for (int i = 0; i < 50; ++i) {
                    const int n = (i + t * 5) % 16;
                    const auto found = bundle.find(sample_key(n));
                    if (!found || !same(*found, sample_compilation(n))) ++wrong;
                    if (bundle.find(sample_key(16 + n))) ++wrong;
                }
            });
        }
        for (auto& thread : threads) thread.join();
        CHECK(wrong == 0);
    }
}

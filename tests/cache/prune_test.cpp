#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "runtime/cache/cubin_cache.hpp"
#include "tests/cache/support.hpp"

using namespace tessera::runtime;
using namespace tessera::test;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t day = 24 * 3600;
constexpr std::int64_t now = 20'000 * day;  // seconds

/// Ten entries of one size; number n was last used n days ago.
struct Aged {
    TemporaryFolder folder;
    FileOps ops = ops_without_flush();
    CubinCache cache{{true, folder.path(), 1 << 30}, ops};
    std::int64_t size = 0;

    Aged() {
        ops.now = [] { return now * second; };
        for (int n = 0; n < 10; ++n) {
            cache.publish(sample_key(n), sample_compilation(n, 5'000));
            set_age(place(n), n * day);
        }
        size = static_cast<std::int64_t>(fs::file_size(place(0)));
    }
    fs::path place(int n) const { return place_of(folder.path(), sample_key(n)); }
    void set_age(const fs::path& path, std::int64_t seconds) const {
        REQUIRE(ops.set_stamp_of_path(path.c_str(), (now - seconds) * second) == 0);
    }
    std::set<int> kept() const {
        std::set<int> numbers;
        for (int n = 0; n < 10; ++n)
            if (fs::exists(place(n))) numbers.insert(n);
        return numbers;
    }
};

}  // namespace

TEST_CASE("prune: by size, the least recently used go first") {
    Aged aged;
    const PruneResult result = aged.cache.prune({.bytes = 4 * aged.size + 10, .seconds = {}});
    CHECK(aged.kept() == std::set{0, 1, 2, 3});
    CHECK(result.removed == 6);
    CHECK(result.removed_bytes == 6 * aged.size);
    CHECK(result.kept == 4);
    CHECK(result.kept_bytes == 4 * aged.size);
    CHECK(aged.cache.prune({.bytes = 4 * aged.size, .seconds = {}}).removed == 0);
    CHECK(aged.cache.prune({.bytes = 0, .seconds = {}}).removed == 4);
}

TEST_CASE("prune: by age, to the second, by the stamps that the cache sets itself") {
    Aged aged;
    CHECK(aged.cache.prune({.bytes = {}, .seconds = 6 * day}).removed == 3);
    CHECK(aged.kept() == std::set{0, 1, 2, 3, 4, 5, 6});
    CHECK(aged.cache.prune({.bytes = {}, .seconds = 6 * day - 1}).removed == 1);
    REQUIRE(aged.cache.load(sample_key(5)));  // a use renews the stamp, whatever the mount does with access times
    CHECK(aged.cache.prune({.bytes = {}, .seconds = 2 * day}).removed == 2);
    CHECK(aged.kept() == std::set{0, 1, 2, 5});
    aged.set_age(aged.place(1), -50 * day);  // a stamp of the future is no age
    CHECK(aged.cache.prune({.bytes = {}, .seconds = 0}).removed == 1);
    CHECK(aged.kept() == std::set{0, 1, 5});
}

TEST_CASE("prune: both limits, no limit, other versions, foreign files and left-over temporaries") {
    Aged aged;
    CHECK(aged.cache.prune({}).removed == 0);
    std::string other_version = read_file(aged.place(8));
    ++other_version[8];
    write_file(aged.place(8), other_version);
    aged.set_age(aged.place(8), 8 * day);
    write_file(aged.place(9), "somebody's");
    aged.set_age(aged.place(9), 9 * day);
    const fs::path left_over = aged.place(0).string() + ".tmp-0123456789abcdef";
    write_file(left_over, "half an entry");
    aged.set_age(left_over, 3600);
    const PruneResult result = aged.cache.prune({.bytes = 3 * aged.size, .seconds = 6 * day});
    CHECK(result.removed == 6);
    CHECK(aged.kept() == std::set{0, 1, 2, 9});
    CHECK_FALSE(fs::exists(left_over));
}

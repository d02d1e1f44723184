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
constexpr std::int64_t hour = 3600 * second;
std::int64_t clock_now = 0;

FileOps ops_with_clock() {
    FileOps ops = ops_without_flush();
    ops.now = [] { return clock_now; };
    return ops;
}

/// Numbers of the sample keys whose entries are there.
std::set<int> kept(const fs::path& folder, int kernels) {
    std::set<int> numbers;
    for (int n = 0; n < kernels; ++n) {
        if (fs::exists(place_of(folder, sample_key(n)))) numbers.insert(n);
    }
    return numbers;
}

std::int64_t entry_bytes(int n, std::size_t cubin_bytes) {
    return static_cast<std::int64_t>(encode_entry(sample_key(n), sample_compilation(n, cubin_bytes)).size());
}

void make_old(const fs::path& path, std::int64_t nanoseconds) {
    REQUIRE(real_file_ops().set_stamp_of_path(path.c_str(), nanoseconds) == 0);
}

}  // namespace

TEST_CASE("eviction: the least recently used go first, a look-up counts as use") {
    TemporaryFolder folder;
    const FileOps ops = ops_with_clock();
    const std::int64_t size = entry_bytes(0, 10'000);
    CubinCache cache({true, folder.path(), 8 * size + 100}, ops);
    clock_now = 1'000'000 * hour;
    for (int n = 0; n < 8; ++n, clock_now += 2 * hour) cache.publish(sample_key(n), sample_compilation(n, 10'000));
    REQUIRE(kept(folder.path(), 8).size() == 8);
    CHECK(cache.evict() == 0);
    for (const int n : {0, 3}) REQUIRE(cache.load(sample_key(n)));
    clock_now += 2 * hour;
    cache.publish(sample_key(8), sample_compilation(8, 10'000));
    // Nine entries are too many; down to 7/8 of the size, that is seven entries.
    CHECK(kept(folder.path(), 9) == std::set{0, 3, 4, 5, 6, 7, 8});
    CHECK(cache.stats().evicted == 2);
    clock_now += 2 * hour;
    cache.publish(sample_key(9), sample_compilation(9, 10'000));
    CHECK(kept(folder.path(), 10) == std::set{0, 3, 4, 5, 6, 7, 8, 9});
    for (const auto& entry : cache.list()) CHECK(entry.last_use <= clock_now / second);
    CHECK(cache.list().front().kernel == "kernel_9");
    CHECK(cache.list().back().kernel == "kernel_4");
}

TEST_CASE("eviction: a smaller size is reached at the first publication of the next process") {
    TemporaryFolder folder;
    const FileOps ops = ops_with_clock();
    clock_now = 1'000'000 * hour;
    {
        CubinCache large({true, folder.path(), 1 << 30}, ops);
        for (int n = 0; n < 20; ++n, clock_now += second) large.publish(sample_key(n), sample_compilation(n, 10'000));
    }
    const std::int64_t size = entry_bytes(20, 10'000);
    CubinCache small({true, folder.path(), 8 * size}, ops);
    small.publish(sample_key(20), sample_compilation(20, 10'000));
    CHECK(kept(folder.path(), 21) == std::set{14, 15, 16, 17, 18, 19, 20});
}

TEST_CASE("eviction: an entry larger than the whole cache is not kept, and drives nothing out") {
    TemporaryFolder folder;
    CubinCache cache({true, folder.path(), 20'000});
    cache.publish(sample_key(0), sample_compilation(0, 5'000));
    cache.publish(sample_key(1), sample_compilation(1, 20'000));
    CHECK(kept(folder.path(), 2) == std::set{0});
    CHECK(cache.stats().failed == 1);
}

TEST_CASE("eviction: stamps are refreshed once an hour at most, and wrong clocks are put right") {
    TemporaryFolder folder;
    const FileOps ops = ops_with_clock();
    CubinCache cache({true, folder.path(), 1 << 20}, ops);
    clock_now = 1'000'000 * hour;
    cache.publish(sample_key(0), sample_compilation(0));
    const auto last_use = [&] { return cache.list().at(0).last_use; };
    CHECK(last_use() == clock_now / second);
    clock_now += hour / 2;
    REQUIRE(cache.load(sample_key(0)));
    CHECK(last_use() == (clock_now - hour / 2) / second);
    clock_now += hour;
    REQUIRE(cache.load(sample_key(0)));
    CHECK(last_use() == clock_now / second);
    make_old(place_of(folder.path(), sample_key(0)), clock_now + 1000 * hour);
    REQUIRE(cache.load(sample_key(0)));
    CHECK(last_use() == clock_now / second);
}

TEST_CASE("eviction: files that are not ours stay, whatever they are called") {
    TemporaryFolder folder;
    const fs::path named_like_ours = place_of(folder.path(), sample_key(50));
    fs::create_directories(named_like_ours.parent_path());
    write_file(named_like_ours, std::string(30'000, 'x'));
    write_file(folder.path() / "notes.txt", std::string(30'000, 'x'));
    make_old(named_like_ours, 1);
    const FileOps ops = ops_with_clock();
    clock_now = 1'000'000 * hour;
    CubinCache cache({true, folder.path(), 20'000}, ops);
    for (int n = 0; n < 4; ++n, clock_now += second) cache.publish(sample_key(n), sample_compilation(n, 6'000));
    CHECK(fs::exists(named_like_ours));
    CHECK(fs::exists(folder.path() / "notes.txt"));
    CHECK(kept(folder.path(), 4) == std::set{2, 3});
}

TEST_CASE("eviction: temporaries of dead processes go after an hour, younger ones stay") {
    TemporaryFolder folder;
    const fs::path entry = place_of(folder.path(), sample_key(0));
    fs::create_directories(entry.parent_path());
    const std::string old_one = entry.string() + ".tmp-0123456789abcdef";
    const std::string young = entry.string() + ".tmp-fedcba9876543210";
    const std::string foreign = entry.string() + ".tmp-hello";
    for (const std::string& path : {old_one, young, foreign}) write_file(path, "half an entry");
    const FileOps ops = ops_with_clock();
    clock_now = 1'000'000 * hour;
    make_old(old_one, clock_now - hour);
    make_old(young, clock_now - hour + second);
    make_old(foreign, clock_now - 100 * hour);
    CubinCache cache({true, folder.path(), 1 << 20}, ops);
    cache.publish(sample_key(1), sample_compilation(1));
    CHECK_FALSE(fs::exists(old_one));
    CHECK(fs::exists(young));
    CHECK(fs::exists(foreign));
    CHECK(cache.list().size() == 1);
}

TEST_CASE("clear: removes our entries and nothing else (A34)") {
    TemporaryFolder folder;
    CubinCache cache({true, folder.path(), 1 << 20});
    for (int n = 0; n < 5; ++n) cache.publish(sample_key(n), sample_compilation(n));
    const fs::path subfolder = place_of(folder.path(), sample_key(0)).parent_path();
    std::set<std::string> foreign = {"notes.txt", "ab.cubin", "keep/00000000000000000000000000000000.cubin"};
    foreign.insert(fs::relative(subfolder / "readme", folder.path()).string());
    foreign.insert(fs::relative(subfolder / "0123456789abcdef0123456789abcd.cubin", folder.path()).string());
    fs::create_directory(folder.path() / "keep");
    for (const std::string& name : foreign) write_file(folder.path() / name, "somebody's");
    TemporaryFolder elsewhere;
    write_file(elsewhere.path() / "target", read_file(place_of(folder.path(), sample_key(1))));
    const std::string link = fs::relative(subfolder / "1123456789abcdef0123456789abcd.cubin", folder.path()).string();
    fs::create_symlink(elsewhere.path() / "target", folder.path() / link);
    foreign.insert(link);
    CHECK(cache.clear() == 5);
    const auto left = files_below(folder.path());
    CHECK(std::set<std::string>(left.begin(), left.end()) == foreign);
    CHECK(fs::exists(elsewhere.path() / "target"));
    CHECK_FALSE(fs::exists(place_of(folder.path(), sample_key(1)).parent_path()));
    CHECK(cache.clear() == 0);
    cache.publish(sample_key(1), sample_compilation(1));
    CHECK(cache.load(sample_key(1)));
}

TEST_CASE("list and verify: what they say of sound, damaged and foreign entries") {
    TemporaryFolder folder;
    CubinCache cache({true, folder.path(), 1 << 20});
    for (int n = 0; n < 4; ++n) cache.publish(sample_key(n), sample_compilation(n));
    CHECK(cache.verify().sound == 4);
    CHECK(cache.verify().damaged.empty());
    for (const auto& entry : cache.list()) {
        CHECK(entry.kernel.starts_with("kernel_"));
        CHECK(entry.key_text.starts_with("format 2\ntarget sm_90a\ncompiler build-id:1234\nsource "));
        CHECK(entry.bytes == static_cast<std::int64_t>(fs::file_size(entry.path)));
    }
    const auto place = [&](int n) { return place_of(folder.path(), sample_key(n)); };
    std::string bytes = read_file(place(0));
    bytes[200] ^= 1;
    write_file(place(0), bytes);
    bytes = read_file(place(1));
    ++bytes[8];
    write_file(place(1), bytes);
    fs::rename(place(2), place(2).parent_path() / "0123456789abcdef0123456789abcd.cubin");
    const auto found = cache.verify();
    CHECK(found.sound == 1);
    CHECK(found.other_format == 1);
    CHECK(found.damaged.size() == 2);
    CHECK(cache.list().size() == 4);
    CHECK(cache.clear() == 4);
}

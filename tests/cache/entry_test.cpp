#include "runtime/cache/entry.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cache/cubin_cache.hpp"
#include "tests/cache/support.hpp"

using namespace tessera::runtime;
using namespace tessera::test;
namespace fs = std::filesystem;

namespace {

/// A cache with one entry, which a test spoils again and again.
struct Spoiled {
    TemporaryFolder folder;
    FileOps ops = ops_without_flush();
    CubinCache cache{{true, folder.path(), 1 << 30}, ops};
    CacheKey key = sample_key(1);
    CachedCubin compiled = sample_compilation(1, 700);
    fs::path place = place_of(folder.path(), key);
    std::string good;

    Spoiled() {
        cache.publish(key, compiled);
        good = read_file(place);
        REQUIRE(good.size() > 700);
        REQUIRE(same(cache.load(key).value(), compiled));
    }

    /// The look-up must miss and count the damage; publishing must put the entry back.
    void check_survived() {
        const CacheStats before = cache.stats();
        REQUIRE_FALSE(cache.load(key));
        REQUIRE(cache.stats().damaged == before.damaged + 1);
        REQUIRE(cache.stats().misses == before.misses + 1);
        cache.publish(key, compiled);
        REQUIRE(cache.stats().published == before.published + 1);
        REQUIRE(read_file(place) == good);
        REQUIRE(same(cache.load(key).value(), compiled));
    }

    void check_survived(const std::string& bytes) {
        write_file(place, bytes);
        check_survived();
    }
};

}  // namespace

TEST_CASE("entry: what was published is loaded by another cache object, byte for byte") {
    TemporaryFolder folder;
    const fs::path below = folder.path() / "not" / "there" / "yet";
    CubinCache writer({true, below, 1 << 20});
    CHECK_FALSE(writer.load(sample_key(1)));
    CachedCubin bare = sample_compilation(2, 64);
    bare.kernel = bare.ptx = bare.log = "";
    writer.publish(sample_key(1), sample_compilation(1, 40'000));
    writer.publish(sample_key(2), bare);
    CubinCache reader({true, below, 1 << 20});
    CHECK(same(reader.load(sample_key(1)).value(), sample_compilation(1, 40'000)));
    CHECK(same(reader.load(sample_key(2)).value(), bare));
    CHECK_FALSE(reader.load(sample_key(3)));
    CHECK(reader.stats().hits == 2);
    CHECK(reader.stats().misses == 1);
    CHECK(reader.stats().damaged == 0);
    CHECK(writer.stats().published == 2);
    CHECK(writer.stats().bytes == reader.stats().bytes);
    CHECK(reader.stats().bytes == static_cast<std::int64_t>(fs::file_size(place_of(below, sample_key(1))) +
                                                            fs::file_size(place_of(below, sample_key(2)))));
    struct stat status{};
    REQUIRE(::stat(below.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    REQUIRE(::stat(place_of(below, sample_key(1)).c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("entry: a file that another program wrote after the description of the format") {
    const std::string file = read_file(fs::path(TESSERA_CACHE_SEEDS) / "cache_entry" / "whole");
    const auto entry = decode_entry(std::as_bytes(std::span(file)));
    REQUIRE(entry);
    CHECK(entry->key.text.starts_with("format 2\ntarget sm_90a\ncompiler build-id:00ff\noption --fmad=false\nsource "));
    CHECK(entry->compiled.kernel == "a");
    CHECK(entry->compiled.log == "0 bytes spill stores");
    CHECK(entry->compiled.ptx == ".version 9.0");
    CHECK(entry->compiled.cubin.size() == 64);
    const auto again = encode_entry(entry->key, entry->compiled);
    CHECK(std::string(reinterpret_cast<const char*>(again.data()), again.size()) == file);
}

TEST_CASE("entry: every truncation is survived and repaired (C30)") {
    Spoiled spoiled;
    for (std::size_t bytes = 0; bytes < spoiled.good.size(); ++bytes) {
        CAPTURE(bytes);
        spoiled.check_survived(spoiled.good.substr(0, bytes));
    }
    spoiled.check_survived(spoiled.good + '\0');
    spoiled.check_survived(spoiled.good + spoiled.good);
}

TEST_CASE("entry: a changed byte at every position is survived and repaired (C30)") {
    Spoiled spoiled;
    for (std::size_t at = 0; at < spoiled.good.size(); ++at) {
        CAPTURE(at);
        for (const int flip : {0x01, 0x80, 0xff}) {
            std::string bytes = spoiled.good;
            bytes[at] = static_cast<char>(bytes[at] ^ flip);
            spoiled.check_survived(bytes);
        }
    }
}

TEST_CASE("entry: absurd sizes in the header take no memory and do no harm") {
    Spoiled spoiled;
    for (const std::size_t offset : {12u, 32u, 36u, 40u, 44u, 48u, 52u}) {
        std::string bytes = spoiled.good;
        for (std::size_t i = 0; i < 4; ++i) bytes[offset + i] = '\xff';
        spoiled.check_survived(bytes);
    }
}

TEST_CASE("entry: a sound entry of another key, format or content in its place is not loaded") {
    Spoiled spoiled;
    const auto as_text = [](const std::vector<std::byte>& bytes) {
        return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    const auto resealed = [&](std::string bytes) {
        bytes.resize(bytes.size() - 16);
        const Digest sum = xxh3_128(std::as_bytes(std::span(bytes)));
        return bytes + std::string(reinterpret_cast<const char*>(sum.data()), sum.size());
    };
    REQUIRE(resealed(spoiled.good) == spoiled.good);
    spoiled.check_survived(as_text(encode_entry(sample_key(2), spoiled.compiled)));

    CacheKey other_target = spoiled.key;  // as if two keys had the same digest
    other_target.text.replace(other_target.text.find("sm_90a"), 6, "sm_90b");
    spoiled.check_survived(as_text(encode_entry(other_target, spoiled.compiled)));

    std::string other_format = spoiled.good;
    ++other_format[8];
    spoiled.check_survived(resealed(other_format));
    const std::string sealed = resealed(other_format);
    CHECK_FALSE(decode_entry(spoiled.key, std::as_bytes(std::span(sealed))));

    std::string no_elf = spoiled.good;
    no_elf[no_elf.size() - 16 - 700] = 'e';
    spoiled.check_survived(resealed(no_elf));
}

TEST_CASE("entry: something else in its place is survived and replaced (C30)") {
    Spoiled spoiled;
    const auto replace_by = [&](const std::function<void()>& make) {
        fs::remove_all(spoiled.place);
        make();
        spoiled.check_survived();
    };
    SECTION("an empty folder") {
        replace_by([&] { fs::create_directory(spoiled.place); });
        CHECK(files_below(spoiled.folder.path()).size() == 1);
    }
    SECTION("a folder with somebody's file, which stays") {
        replace_by([&] {
            fs::create_directory(spoiled.place);
            write_file(spoiled.place / "precious", "data");
        });
        const auto files = files_below(spoiled.folder.path());
        REQUIRE(files.size() == 2);
        CHECK(files[1].find(".cubin.aside-") != std::string::npos);
        CHECK(read_file(spoiled.folder.path() / files[1]) == "data");
    }
    SECTION("a link, even to a sound entry") {
        TemporaryFolder elsewhere;
        write_file(elsewhere.path() / "entry", spoiled.good);
        replace_by([&] { fs::create_symlink(elsewhere.path() / "entry", spoiled.place); });
        CHECK_FALSE(fs::is_symlink(spoiled.place));
        CHECK(read_file(elsewhere.path() / "entry") == spoiled.good);
    }
    SECTION("a pipe, which would keep a reader waiting") {
        replace_by([&] { REQUIRE(::mkfifo(spoiled.place.c_str(), 0600) == 0); });
    }
    SECTION("a sound entry that others can write") {
        replace_by([&] {
            write_file(spoiled.place, spoiled.good);
            fs::permissions(spoiled.place, fs::perms::group_write, fs::perm_options::add);
        });
    }
    SECTION("a file in the place of the sub-folder") {
        fs::remove_all(spoiled.place.parent_path());
        write_file(spoiled.place.parent_path(), "data");
        spoiled.check_survived();
        CHECK(fs::is_directory(spoiled.place.parent_path()));
    }
}

TEST_CASE("entry: bytes that are no cubin are never published") {
    TemporaryFolder folder;
    CubinCache cache({true, folder.path(), 1 << 20});
    CachedCubin empty = sample_compilation(1), text = sample_compilation(1);
    empty.cubin.clear();
    text.cubin[0] = std::byte{'#'};
    cache.publish(sample_key(1), empty);
    cache.publish(sample_key(1), text);
    CHECK(files_below(folder.path()).empty());
    CHECK(cache.stats().failed == 2);
}

// Every system call of looking up and publishing, failing for good with the errors that it has in the field: each in a
// process of its own, so that its warnings can be counted.
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "runtime/cache/cubin_cache.hpp"
#include "runtime/cache/transfer.hpp"
#include "tests/cache/faulty.hpp"
#include "tests/cache/support.hpp"

using namespace tessera::runtime;
using namespace tessera::test;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t cubin_bytes = 5'000;

/// In the folder: an entry (0), a damaged one (1); nothing of 2, and the folder of 3 does not exist.
enum class Effect {
    none,         // as if nothing had happened
    nothing_new,  // what is there is served, nothing is added: one warning
    unread,       // nothing is served, everything is compiled and published
    unused,       // the folder is left alone: one warning
};

enum class Files { unnamed, named, both };  // as the file system has them

struct Case {
    const char* what;
    unsigned calls;
    std::vector<int> errors;
    Effect effect;
    Files files = Files::both;
    bool is_short = false;
};

const std::vector<Case>& cases() {
    static const std::vector<Case> table = {
        {"opening the folder", call::open, {EACCES, EIO, EMFILE, ELOOP}, Effect::unused},
        {"examining the folder", call::status, {EIO, ESTALE}, Effect::unused},
        {"making a file",
         call::create,
         {ENOSPC, EIO, EDQUOT, EACCES, EROFS, EMFILE, ENAMETOOLONG},
         Effect::nothing_new},
        {"reading", call::read_at, {EIO, ESTALE, EISDIR}, Effect::unread},
        {"reading less than there is", call::read_at, {0}, Effect::unread, Files::both, true},
        {"writing", call::write, {ENOSPC, EIO, EDQUOT, EFBIG}, Effect::nothing_new},
        {"writing a part, then nothing", call::write, {ENOSPC, EIO, EDQUOT}, Effect::nothing_new, Files::both, true},
        {"writing in pieces", call::write, {EINTR}, Effect::none, Files::both, true},
        {"flushing", call::flush, {ENOSPC, EIO, EDQUOT}, Effect::nothing_new},
        {"closing", call::close, {EIO, ENOSPC, EDQUOT}, Effect::nothing_new, Files::named},
        {"closing what was flushed and has its name", call::close, {EIO}, Effect::none, Files::unnamed},
        {"renaming",
         call::rename,
         {EXDEV, EACCES, ENOENT, EIO, EROFS, EBUSY, ESTALE},
         Effect::nothing_new,
         Files::named},
        {"linking, but a named file can be renamed",
         call::link,
         {EACCES, ENOENT, EXDEV, EPERM, EIO},
         Effect::none,
         Files::unnamed},
        {"linking and renaming",
         call::link | call::rename,
         {EXDEV, EACCES, ENOENT, EIO, ENOSPC, EDQUOT},
         Effect::nothing_new,
         Files::unnamed},
        {"making a folder that another made", call::make_folder, {EEXIST}, Effect::none},
        {"removing a file", call::remove_file, {EBUSY, EACCES, EIO}, Effect::none},
        {"removing a folder", call::remove_folder, {EBUSY, EACCES}, Effect::none},
        {"examining a file", call::status_of_path, {EIO, ENOENT, EACCES}, Effect::none},
        {"listing", call::list_folder, {EIO, EACCES, EMFILE}, Effect::none},
        {"setting the stamp", call::set_stamp, {EROFS, EACCES, EPERM}, Effect::none},
    };
    return table;
}

void fill(const fs::path& folder) {
    const CacheSettings settings{true, folder, 1 << 20};
    const FileOps ops = ops_without_flush();
    CubinCache cache(settings, ops);
    for (const int n : {0, 1}) cache.publish(sample_key(n), sample_compilation(n, cubin_bytes));
    write_file(place_of(folder, sample_key(1)), "damaged");
    fs::remove_all(place_of(folder, sample_key(3)).parent_path());
}

}  // namespace

TEST_CASE("child: a call fails", "[.child]") {
    const Case& c = cases().at(std::stoul(passed("TEST_CASE_NUMBER")));
    const fs::path folder = passed("TESSERA_CACHE_DIR");
    const FileOps ops = faulty_ops();
    fault = {.calls = c.calls,
             .error = std::stoi(passed("TEST_ERROR")),
             .is_short = c.is_short,
             .unnamed_files = passed("TEST_FILES") == "unnamed"};
    CubinCache cache({true, folder, 1 << 20}, ops);
    std::vector<int> served;
    for (int n = 0; n < 4; ++n) {
        const auto found = cache.load(sample_key(n));
        if (found) {
            CHECK(same(*found, sample_compilation(n, cubin_bytes)));
            served.push_back(n);
        } else {
            cache.publish(sample_key(n), sample_compilation(n, cubin_bytes));
        }
    }
    const bool reads = c.effect == Effect::none || c.effect == Effect::nothing_new;
    CHECK(served == (reads ? std::vector{0} : std::vector<int>{}));
    const std::int64_t published = c.effect == Effect::none ? 3 : c.effect == Effect::unread ? 4 : 0;
    CHECK(cache.stats().published == published);
    CHECK(cache.stats().failed == 4 - published - static_cast<int>(served.size()));
    (void)cache.list();
    (void)cache.prune({.bytes = 1 << 20, .seconds = 3600});
}

namespace {

void check_case(std::size_t number, int error, const char* files) {
    const Case& c = cases()[number];
    CAPTURE(c.what, std::string(std::strerror(error)), files);
    TemporaryFolder folder;
    fill(folder.path());
    const auto result = Child("child: a call fails", {{"TEST_CASE_NUMBER", std::to_string(number)},
                                                      {"TEST_ERROR", std::to_string(error)},
                                                      {"TEST_FILES", files},
                                                      {"TESSERA_CACHE_DIR", folder.path().string()}})
                            .wait();
    INFO(result.output);
    CHECK(result.exit_code == 0);
    const bool adds = c.effect == Effect::none || c.effect == Effect::unread;
    CHECK(result.warnings() == (adds ? 0 : 1));
    // No left-over: sound entries, and the damaged one where it could not be replaced.
    CHECK(files_below(folder.path()).size() == (adds ? 4 : 2));
    const CubinCache after({true, folder.path(), 1 << 20});
    CHECK(after.verify().sound == (adds ? 4 : 1));
    CHECK(after.verify().damaged.size() == (adds ? 0 : 1));
}

}  // namespace

TEST_CASE("faults: each call with each error: what is served, what is kept, how often it is said") {
    int runs = 0;
    for (std::size_t i = 0; i < cases().size(); ++i) {
        for (const int error : cases()[i].errors) {
            for (const auto& [files, name] : {std::pair{Files::unnamed, "unnamed"}, {Files::named, "named"}}) {
                if (cases()[i].files != Files::both && cases()[i].files != files) continue;
                check_case(i, error, name);
                ++runs;
            }
        }
    }
    CHECK(runs == 2 * 43 + 7 + 15);
}

TEST_CASE("faults: a temporary that cannot be removed goes when it is an hour old") {
    TemporaryFolder folder;
    const FileOps ops = faulty_ops();
    fault = {.calls = call::rename | call::remove_file, .error = EBUSY, .unnamed_files = false};
    CubinCache cache({true, folder.path(), 1 << 20}, ops);
    cache.publish(sample_key(0), sample_compilation(0));
    CHECK(files_below(folder.path()).size() == 1);
    fault = {};
    FileOps later = ops_without_flush();
    later.now = [] { return real_file_ops().now() + std::int64_t{3601} * 1'000'000'000; };
    CubinCache next({true, folder.path(), 1 << 20}, later);
    next.publish(sample_key(1), sample_compilation(1));
    CHECK(files_below(folder.path()).size() == 1);
    CHECK(next.load(sample_key(1)));
}

TEST_CASE("faults: entries that cannot be evicted count on, and the others go") {
    TemporaryFolder folder;
    const FileOps ops = faulty_ops();
    fault = {};
    CubinCache cache({true, folder.path(), 1 << 20}, ops);
    for (int n = 0; n < 8; ++n) {
        cache.publish(sample_key(n), sample_compilation(n, cubin_bytes));
        REQUIRE(real_file_ops().set_stamp_of_path(place_of(folder.path(), sample_key(n)).c_str(),
                                                  std::int64_t{1'000'000'000} * n) == 0);
    }
    const auto size = static_cast<std::int64_t>(fs::file_size(place_of(folder.path(), sample_key(0))));
    CubinCache small({true, folder.path(), 8 * size - 1}, ops);
    fault = {.calls = call::remove_file, .error = EBUSY, .last = 2};
    CHECK(small.evict() == 1);  // down to seven eighths: seven entries
    std::vector<bool> is_there;
    for (int n = 0; n < 8; ++n) is_there.push_back(fs::exists(place_of(folder.path(), sample_key(n))));
    CHECK(is_there == std::vector<bool>{true, true, false, true, true, true, true, true});
    fault = {};
}

TEST_CASE("faults: no file of the cache is mapped, so that one which is cut while it is read kills nobody") {
    TemporaryFolder folder;
    CubinCache cache({true, folder.path(), 1 << 30});
    const CachedCubin large = sample_compilation(0, 8 << 20);
    cache.publish(sample_key(0), large);
    const auto found = cache.load(sample_key(0));
    REQUIRE(found);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) CHECK(line.find(folder.path().string()) == std::string::npos);
}

TEST_CASE("faults: any call of a bundle's reader fails, once or for good: what was put in is served, or nothing") {
    TemporaryFolder folder;
    CubinCache cache({true, folder.path() / "cache", 1 << 20});
    for (int n = 0; n < 3; ++n) cache.publish(sample_key(n), sample_compilation(n, cubin_bytes));
    const std::string file = (folder.path() / "file").string(), below = (folder.path() / "below").string();
    export_bundle(cache, file, false);
    export_bundle(cache, below + "/", false);
    const FileOps ops = faulty_ops();
    int served = 0, refused = 0;
    for (const std::string& path : {file, below}) {
        for (const int error : {0, EIO, EACCES, ENOENT, ESTALE, EMFILE, EINTR}) {  // 0: reads that end too early
            for (int i = 2; i < 40; ++i) {
                const int first = i / 2;
                const bool for_good = i % 2 == 1;
                CAPTURE(path, error, first, for_good);
                if (error == EINTR && for_good) continue;  // would be tried again for ever, and rightly so
                const unsigned calls = error == 0 ? call::read_at : call::all;
                fault = {.calls = calls,
                         .error = error,
                         .first = first,
                         .last = for_good ? 1000 : first,
                         .is_short = error == 0};
                Bundle bundle(path, ops);
                for (int n = 0; n < 3; ++n) {
                    const auto found = bundle.find(sample_key(n));
                    ++(found ? served : refused);
                    if (found) CHECK(same(*found, sample_compilation(n, cubin_bytes)));
                }
            }
        }
    }
    fault = {};
    CHECK(served > 100);
    CHECK(refused > 100);
}

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>

#include "runtime/cache/cubin_cache.hpp"
#include "tests/cache/faulty.hpp"
#include "tests/cache/support.hpp"

using namespace tessera::runtime;
using namespace tessera::test;
namespace fs = std::filesystem;

namespace {

const FileOps& real = real_file_ops();

constexpr int errors[] = {ENOSPC, EIO, EACCES, EROFS, EINTR, ESTALE, ENOENT, EEXIST, EMFILE, EXDEV, EDQUOT, EBUSY};

/// Everything that a process does with its cache, with faults; what is loaded must be what was published.
void use(CubinCache& cache) {
    for (int n = 0; n < 3; ++n) {
        const auto found = cache.load(sample_key(n));
        if (found) {
            REQUIRE(same(*found, sample_compilation(n, 5'000)));
        } else {
            cache.publish(sample_key(n), sample_compilation(n, 5'000));
        }
    }
    (void)cache.list();
    (void)cache.verify();
    (void)cache.evict();
}

int temporaries(const fs::path& folder) {
    int count = 0;
    for (const std::string& file : files_below(folder)) count += file.find(".tmp-") != std::string::npos;
    return count;
}

}  // namespace

TEST_CASE("faults: any one system call fails, in any way: no error, no wrong bytes, no temporary left") {
    const FileOps ops = faulty_ops();
    const bool unnamed_files = GENERATE(true, false);
    int runs = 0;
    for (const int error : errors) {
        for (int at = 1;; ++at, ++runs) {
            CAPTURE(unnamed_files, error, at);
            TemporaryFolder folder;
            const fs::path kept = folder.path() / "cache";
            fault = {};
            {
                // An entry that must be replaced, one that is evicted, and one to be found.
                CubinCache before({true, kept, 1 << 20}, ops);
                for (int n : {0, 1, 4}) before.publish(sample_key(n), sample_compilation(n, 5'000));
                write_file(place_of(kept, sample_key(0)), "damaged");
                REQUIRE(real.set_stamp_of_path(place_of(kept, sample_key(4)).c_str(), 1) == 0);
            }
            fault = {.calls = call::all, .error = error, .first = at, .last = at, .unnamed_files = unnamed_files};
            CubinCache cache({true, kept, 17'000}, ops);
            use(cache);
            const bool struck = fault.count >= at;
            // Afterwards everything is as if nothing had happened.
            fault = {};
            CHECK(temporaries(kept) == 0);
            CubinCache after({true, kept, 1 << 20}, ops);
            use(after);
            for (int n = 0; n < 3; ++n) CHECK(same(after.load(sample_key(n)).value(), sample_compilation(n, 5'000)));
            if (!struck) break;
        }
    }
    CHECK(runs > 12 * 30);
}

TEST_CASE("faults: the disk fills up and stays full (C31)") {
    const FileOps ops = faulty_ops();
    for (int at = 1;; ++at) {
        CAPTURE(at);
        TemporaryFolder folder;
        fault = {.calls = call::all, .error = ENOSPC, .first = at};
        CubinCache cache({true, folder.path() / "cache", 1 << 20}, ops);
        use(cache);
        const bool struck = fault.count >= at;
        fault = {};
        CubinCache after({true, folder.path() / "cache", 1 << 20}, ops);
        use(after);
        for (int n = 0; n < 3; ++n) CHECK(same(after.load(sample_key(n)).value(), sample_compilation(n, 5'000)));
        if (!struck) break;
    }
}

TEST_CASE("faults: only writing fails, what was kept before is still served and no temporary stays") {
    TemporaryFolder folder;
    FileOps ops = real;
    {
        CubinCache cache({true, folder.path(), 1 << 20});
        cache.publish(sample_key(0), sample_compilation(0, 5'000));
    }
    ops.write = [](int descriptor, const void* from, std::size_t bytes) {
        static int calls = 0;
        if (++calls % 2) return real.write(descriptor, from, std::min<std::size_t>(bytes, 100));
        errno = ENOSPC;
        return ssize_t{-1};
    };
    CubinCache cache({true, folder.path(), 1 << 20}, ops);
    use(cache);
    CHECK(cache.stats().hits == 1);
    CHECK(cache.stats().failed == 2);
    CHECK(files_below(folder.path()).size() == 1);
}

TEST_CASE("faults: an error that appears only at the flush or the closing of the file keeps the entry out") {
    FileOps flush = real, close = real;
    flush.flush = [](int) {
        errno = EIO;
        return -1;
    };
    static int closings = 0;
    close.open = [](const char* path, int flags, mode_t mode) {
        if (flags & O_CREAT) closings = 1;
        if ((flags & O_TMPFILE) != O_TMPFILE) return real.open(path, flags, mode);
        errno = EOPNOTSUPP;
        return -1;
    };
    close.close = [](int descriptor) {
        const int result = real.close(descriptor);
        if (closings-- != 1) return result;
        errno = ENOSPC;
        return -1;
    };
    for (const FileOps& ops : {flush, close}) {
        TemporaryFolder folder;
        CubinCache cache({true, folder.path(), 1 << 20}, ops);
        cache.publish(sample_key(0), sample_compilation(0));
        CHECK(cache.stats().failed == 1);
        CHECK(cache.stats().published == 0);
        CHECK(files_below(folder.path()).empty());
    }
}

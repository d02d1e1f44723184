// A writer that is killed at any point leaves whole entries or none.
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "runtime/cache/cubin_cache.hpp"
#include "tests/cache/support.hpp"

using namespace tessera::runtime;
using namespace tessera::test;

namespace {

constexpr int kernels = 6;
constexpr std::size_t cubin_bytes = 200'000;

int open_named_only(const char* path, int flags, mode_t mode) {
    if ((flags & O_TMPFILE) != O_TMPFILE) return real_file_ops().open(path, flags, mode);
    errno = EOPNOTSUPP;
    return -1;
}

struct Writers {
    int rounds;
    Medium medium;
    bool unnamed_files;  // false: as on a file system that has none
};

/// Publishes for ever; never returns. With unnamed files always new entries, else a few in the place of themselves.
[[noreturn]] void write_on(const std::filesystem::path& folder, const std::vector<CachedCubin>& compiled, int first,
                           const Writers& how) {
    FileOps ops = how.medium == Medium::disk ? real_file_ops() : ops_without_flush();
    if (!how.unnamed_files) ops.open = open_named_only;
    CubinCache cache({true, folder, 1 << 30}, ops);
    for (int i = 0;; ++i) {
        const int n = how.unnamed_files ? i : i % kernels;
        cache.publish(sample_key(first + n), compiled[static_cast<std::size_t>(n % kernels)]);
    }
}

/// Kills a writer some time after it began; returns how many of its entries are there, whole.
int kill_one(const std::filesystem::path& folder, const std::vector<CachedCubin>& compiled, int first, int microseconds,
             const Writers& how) {
    const pid_t writer = ::fork();
    REQUIRE(writer >= 0);
    if (writer == 0) write_on(folder, compiled, first, how);
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    REQUIRE(::kill(writer, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(writer, &status, 0) == writer);
    REQUIRE(WIFSIGNALED(status));

    CubinCache reader({true, folder, 1 << 30});
    for (int n = 0; n < kernels; ++n) {
        const auto found = reader.load(sample_key(first + n));
        if (found) REQUIRE(same(*found, compiled[static_cast<std::size_t>(n)]));
    }
    REQUIRE(reader.stats().damaged == 0);
    REQUIRE(reader.verify().damaged.empty());
    return static_cast<int>(reader.stats().hits);
}

std::size_t temporaries(const std::filesystem::path& folder) {
    std::size_t count = 0;
    for (const std::string& file : files_below(folder)) count += file.find(".tmp-") != std::string::npos;
    return count;
}

bool has_unnamed_files(const std::filesystem::path& folder) {
    const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (descriptor >= 0) ::close(descriptor);
    return descriptor >= 0;
}

void kill_writers(const Writers& how) {
    const TemporaryFolder folder(how.medium);
    std::vector<CachedCubin> compiled;
    for (int n = 0; n < kernels; ++n) compiled.push_back(sample_compilation(n, cubin_bytes));
    std::mt19937 random(static_cast<unsigned>(how.rounds));
    int served = 0;
    for (int round = 0; round < how.rounds; ++round) {
        CAPTURE(round);
        const int first = how.unnamed_files ? 10'000 * round : 0;
        served += kill_one(folder.path(), compiled, first, static_cast<int>(random() % 8000), how);
        if (round % 7 == 6) CubinCache({true, folder.path(), 1 << 30}).clear();
    }
    CHECK(served > 0);
    const std::size_t left_over = temporaries(folder.path());
    if (how.unnamed_files && has_unnamed_files(folder.path())) CHECK(left_over == 0);
    CHECK(left_over <= static_cast<std::size_t>(how.rounds));  // one a writer at most
    // An hour later, the next publication sweeps up what the dead left.
    FileOps later = ops_without_flush();
    later.now = [] { return real_file_ops().now() + std::int64_t{3601} * 1'000'000'000; };
    CubinCache next({true, folder.path(), 1 << 30}, later);
    next.publish(sample_key(0), compiled[0]);
    CHECK(temporaries(folder.path()) == 0);
    WARN(how.rounds << " writers killed, " << served << " entries served, " << left_over << " temporaries swept up");
}

}  // namespace

TEST_CASE("kill: writers die at random points, 40 rounds") {
    kill_writers({40, Medium::memory, true});
    kill_writers({40, Medium::memory, false});
}

TEST_CASE("kill: writers die at random points, 200 rounds", "[.][long]") {
    kill_writers({200, Medium::disk, true});
    kill_writers({200, Medium::disk, false});
    kill_writers({200, Medium::memory, true});
}

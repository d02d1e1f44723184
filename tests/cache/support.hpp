#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cache/cubin_cache.hpp"
#include "tests/support/scoped_environment.hpp"

namespace tessera::test {

enum class Medium { memory, disk };

/// A new empty folder, mode 0700, removed with all that is in it at the end of the scope. In memory where there is such
/// a place, unless asked otherwise: a disk would be flushed thousands of times.
class TemporaryFolder {
public:
    explicit TemporaryFolder(Medium medium = Medium::memory);
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

/// The n-th key of a series, and bytes that pass for its compilation (with the magic of an ELF file).
runtime::CacheKey sample_key(int n);
runtime::CachedCubin sample_compilation(int n, std::size_t cubin_bytes = 300);
bool same(const runtime::CachedCubin& a, const runtime::CachedCubin& b);

/// Where the documented layout puts an entry: <2 digits>/<30 digits>.cubin.
std::filesystem::path place_of(const std::filesystem::path& folder, const runtime::CacheKey& key);

/// The operating system, but for fsync: thousands of entries are written in a test.
runtime::FileOps ops_without_flush();

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& bytes);
/// All files below a folder, relative to it, sorted.
std::vector<std::string> files_below(const std::filesystem::path& folder);

struct ChildResult {
    int exit_code = -1;
    std::string output;  // stdout and stderr
    int warnings() const;
};

/// A test case of this executable running in a process of its own, with a fresh environment: `values` over ours.
class Child {
public:
    Child(const std::string& test_case, const std::map<std::string, std::string>& values);
    ChildResult wait();

private:
    int pid_ = -1;
    int output_ = -1;
};

/// In a child: the value that the parent passed.
std::string passed(const char* name);

/// In a child: gives up root's rights (mode bits do not bind root), if it has them.
void become_ordinary_user();
inline constexpr unsigned ordinary_user = 65534;

}  // namespace tessera::test

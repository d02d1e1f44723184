#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/cache_key.hpp"
#include "runtime/cache/entry.hpp"
#include "runtime/cache/file_ops.hpp"

namespace tessera::runtime {

struct FoundFile;

struct CacheSettings {
    bool enabled = true;                              // off: nothing is looked up or published
    std::filesystem::path folder;                     // empty: as if off, with one warning at the first publication
    std::int64_t most_bytes = std::int64_t{1} << 30;  // of all entries together
    std::filesystem::path bundle = {};                // asked after the folder (bundle.hpp); empty: none

    /// TESSERA_CACHE, TESSERA_CACHE_DIR, TESSERA_CACHE_SIZE and TESSERA_CACHE_BUNDLE. Errors: UsageError for a bad
    /// value.
    static CacheSettings from_environment();
};

/// What one cache object did since it was made.
struct CacheStats {
    std::int64_t hits = 0;
    std::int64_t misses = 0;
    std::int64_t damaged = 0;  // of the misses: something unusable stood in the entry's place
    std::int64_t published = 0;
    std::int64_t failed = 0;  // publications that failed
    std::int64_t evicted = 0;
    std::int64_t bytes = 0;  // read by hits and written by publications
};

struct CacheEntry {
    std::string path;
    std::string key;       // 32 hexadecimal digits
    std::string kernel;    // empty if the entry has another format
    std::string key_text;  // format, target, compiler, options; a line each
    std::int64_t bytes = 0;
    std::int64_t last_use = 0;  // seconds since 1970
};

/// What to keep, by the stamps of last use that the cache sets itself.
struct PruneLimits {
    std::optional<std::int64_t> bytes;    // of all entries together; the least recently used go first
    std::optional<std::int64_t> seconds;  // since the last use
};

struct PruneResult {
    std::int64_t removed = 0, removed_bytes = 0;
    std::int64_t kept = 0, kept_bytes = 0;
};

struct CacheVerification {
    std::int64_t sound = 0;
    std::int64_t other_format = 0;     // of another version of the library
    std::vector<std::string> damaged;  // paths: cut, changed, or without our magic. The next look-up replaces them
};

/// Compiled kernels on disk, one file each, shared by any number of threads, processes and machines without a lock.
/// Nothing that is wrong with the disk is an error: a damaged entry is a miss, a failed publication a warning (one in a
/// process).
class CubinCache {
public:
    explicit CubinCache(CacheSettings settings = CacheSettings::from_environment(),
                        const FileOps& ops = real_file_ops());

    /// The compilation kept under a key, verified to the last byte; nullopt means compile (and publish).
    std::optional<CachedCubin> load(const CacheKey& key);

    /// Keeps a compilation, in the place of whatever stands there, and evicts what is over the size. The caller goes on
    /// with what it holds in memory, whether this succeeds or not. Bytes that are no cubin are not kept.
    void publish(const CacheKey& key, const CachedCubin& compiled) noexcept;

    CacheStats stats() const;
    const CacheSettings& settings() const { return settings_; }

    // Care of the folder; these work while the cache is switched off, too.

    /// Entries that bear our magic, most recently used first.
    std::vector<CacheEntry> list() const;
    /// Removes entries that bear our magic, and left-over temporaries; nothing else. Returns the number of entries.
    std::int64_t clear();
    /// Reads every entry; changes nothing.
    CacheVerification verify() const;
    /// If the entries take more than `most_bytes`, removes the least recently used until they take no more than 7/8 of
    /// it (so that a full cache is not searched at each publication). Returns how many.
    std::int64_t evict();
    /// Removes what lies outside of the limits, entries of other versions of the library too, and left-over
    /// temporaries. A stamp is an hour old at most when an entry is in use.
    PruneResult prune(const PruneLimits& limits);

private:
    bool may_use(bool create);
    void refresh_stamp(const std::string& path, std::int64_t stamp) const;
    void keep_size(std::int64_t added);
    std::int64_t evict_from(std::vector<FoundFile> files);
    std::vector<FoundFile> own_entries() const;

    CacheSettings settings_;
    std::string folder_;
    const FileOps& ops_;

    enum class Folder { unknown, ready, refused };
    std::atomic<Folder> state_{Folder::unknown};

    std::mutex size_mutex_;
    std::int64_t known_bytes_ = -1;  // of all entries by the last search and what was published since; -1: not searched
    int published_since_search_ = 0;

    std::atomic<std::int64_t> hits_{0}, misses_{0}, damaged_{0}, published_{0}, failed_{0}, evicted_{0}, bytes_{0};
};

}  // namespace tessera::runtime

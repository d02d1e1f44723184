#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/cache/cubin_cache.hpp"
#include "runtime/cache/entry_file.hpp"
#include "runtime/cache/folder.hpp"

namespace tessera::runtime {

namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::size_t head_bytes = 4096;  // holds the header, the key's text and the kernel's name of an usual entry

std::optional<EntryHead> head_of(const FoundFile& file, const FileOps& ops) {
    return read_entry_head(read_first_bytes(file.path, head_bytes, ops));
}

bool bears_our_magic(const FoundFile& file, const FileOps& ops) {
    return read_entry_head(read_first_bytes(file.path, entry_header_bytes, ops)).has_value();
}

bool least_recent_first(const FoundFile& a, const FoundFile& b) {
    return std::pair(a.stamp, a.digest) < std::pair(b.stamp, b.digest);
}

/// Files named like entries, most recently used first.
std::vector<FoundFile> entries_in(const std::string& folder, const FileOps& ops) {
    auto files = scan_folder(folder, ops);
    std::erase_if(files, [](const FoundFile& file) { return file.temporary; });
    std::sort(files.begin(), files.end(), [](const FoundFile& a, const FoundFile& b) {
        return std::pair(b.stamp, a.digest) < std::pair(a.stamp, b.digest);
    });
    return files;
}

/// True if the file is gone afterwards; another process may have been faster.
bool remove(const FoundFile& file, const FileOps& ops) {
    return ops.remove_file(file.path.c_str()) == 0 || errno == ENOENT;
}

}  // namespace

std::vector<CacheEntry> CubinCache::list() const {
    std::vector<CacheEntry> entries;
    for (const FoundFile& file : entries_in(folder_, ops_)) {
        const auto head = head_of(file, ops_);
        if (!head) continue;
        entries.push_back({file.path, hex(file.digest), head->kernel, head->key_text, file.bytes, file.stamp / second});
    }
    return entries;
}

std::int64_t CubinCache::clear() {
    const std::lock_guard lock(size_mutex_);
    std::int64_t removed = 0;
    const auto files = scan_folder(folder_, ops_);
    remove_leftovers(files, ops_);
    for (const FoundFile& file : files) {
        if (file.temporary || !bears_our_magic(file, ops_)) continue;
        removed += ops_.remove_file(file.path.c_str()) == 0;
        const std::string subfolder = file.path.substr(0, file.path.find_last_of('/'));
        ops_.remove_folder(subfolder.c_str());  // fails, as it should, until it is empty
    }
    known_bytes_ = -1;
    return removed;
}

CacheVerification CubinCache::verify() const {
    CacheVerification result;
    for (const FoundFile& file : entries_in(folder_, ops_)) {
        const EntryBytes content = read_entry_file(file.path, ops_);
        if (content.outcome == ReadOutcome::absent) continue;
        const auto entry = decode_entry(content.bytes);
        if (entry && entry->key.digest == file.digest) {
            ++result.sound;
            continue;
        }
        const auto head = head_of(file, ops_);
        if (head && head->format != cache_format) {
            ++result.other_format;
        } else {
            result.damaged.push_back(file.path);
        }
    }
    std::sort(result.damaged.begin(), result.damaged.end());
    return result;
}

std::int64_t CubinCache::evict() {
    const std::lock_guard lock(size_mutex_);
    return evict_from(scan_folder(folder_, ops_));
}

/// Precondition: size_mutex_ is held.
std::int64_t CubinCache::evict_from(std::vector<FoundFile> files) {
    std::erase_if(files, [](const FoundFile& file) { return file.temporary; });
    std::int64_t total = 0;
    for (const FoundFile& file : files) total += file.bytes;
    std::int64_t removed = 0;
    if (total > settings_.most_bytes) {
        const std::int64_t goal = settings_.most_bytes - settings_.most_bytes / 8;
        std::sort(files.begin(), files.end(), least_recent_first);
        for (const FoundFile& file : files) {
            if (total <= goal) break;
            // What is not ours is neither removed nor counted; what cannot be removed counts on.
            const bool ours = bears_our_magic(file, ops_);
            const bool gone = ours && remove(file, ops_);
            if (gone || !ours) total -= file.bytes;
            removed += gone;
        }
    }
    known_bytes_ = total;
    evicted_ += removed;
    return removed;
}

std::vector<FoundFile> CubinCache::own_entries() const {
    auto files = entries_in(folder_, ops_);
    std::erase_if(files, [this](const FoundFile& file) { return !bears_our_magic(file, ops_); });
    return files;
}

PruneResult CubinCache::prune(const PruneLimits& limits) {
    const std::lock_guard lock(size_mutex_);
    remove_leftovers(scan_folder(folder_, ops_), ops_);
    PruneResult result;
    const std::int64_t now = ops_.now() / second;
    bool full = false;
    for (const FoundFile& file : own_entries()) {
        const bool old = limits.seconds && now - file.stamp / second > *limits.seconds;
        full = full || (limits.bytes && result.kept_bytes + file.bytes > *limits.bytes);
        if ((old || full) && remove(file, ops_)) {
            ++result.removed;
            result.removed_bytes += file.bytes;
        } else {
            ++result.kept;
            result.kept_bytes += file.bytes;
        }
    }
    known_bytes_ = -1;
    return result;
}

}  // namespace tessera::runtime

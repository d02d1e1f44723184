#include "runtime/cache/cubin_cache.hpp"

#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include "dsl/base/error.hpp"
#include "runtime/cache/bundle.hpp"
#include "runtime/cache/entry_file.hpp"
#include "runtime/cache/folder.hpp"
#include "runtime/cache/warning.hpp"
#include "runtime/settings.hpp"

namespace tessera::runtime {

namespace {
// A stamp younger than this is left alone: a warm start then writes nothing.
constexpr std::int64_t stamp_unit = std::int64_t{3600} * 1'000'000'000;
// Other processes publish too; after so many publications of our own the folder is searched again.
constexpr int search_every = 256;
}  // namespace

CacheSettings CacheSettings::from_environment() {
    CacheSettings settings;
    settings.enabled = setting_on("TESSERA_CACHE");
    settings.most_bytes = setting_bytes("TESSERA_CACHE_SIZE");
    if (settings.most_bytes == 0) {
        throw UsageError(
            "TESSERA_CACHE_SIZE is 0, and a cache of that size keeps nothing. Give it a size such as 1G, or set "
            "TESSERA_CACHE=off to do without a cache.");
    }
    if (auto folder = setting_path("TESSERA_CACHE_DIR")) {
        settings.folder = std::move(*folder);
    } else if (auto standard = default_cache_folder()) {
        settings.folder = std::move(*standard);
    }
    settings.bundle = Bundle::path_from_environment();
    return settings;
}

CubinCache::CubinCache(CacheSettings settings, const FileOps& ops)
    : settings_(std::move(settings)), folder_(settings_.folder.string()), ops_(ops) {
    while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
}

/// Looks at the folder once; a refusal stands until the process ends, a missing folder is looked for again.
bool CubinCache::may_use(bool create) {
    const Folder known = state_.load();
    if (known != Folder::unknown) return known == Folder::ready;
    std::string why;
    if (folder_.empty()) {
        if (!create) return false;
        why =
            "there is no folder to keep compiled kernels in (XDG_CACHE_HOME and HOME are unset and the user has no "
            "home)";
    } else {
        FolderState found = inspect_folder(folder_, ops_, &why);
        if (found == FolderState::missing) {
            if (!create) return false;
            if (!make_folders(folder_, ops_)) {
                why = "the cubin cache folder " + folder_ + " cannot be made (" +
                      std::generic_category().message(errno) + ")";
            } else {
                found = inspect_folder(folder_, ops_, &why);
                if (found == FolderState::missing) why = "the cubin cache folder " + folder_ + " is a link to nowhere";
            }
        }
        if (found == FolderState::ready) {
            state_ = Folder::ready;
            return true;
        }
    }
    state_ = Folder::refused;
    warn_about_cache(why);
    return false;
}

void CubinCache::refresh_stamp(const std::string& path, std::int64_t stamp) const {
    const std::int64_t now = ops_.now();
    if (stamp > now - stamp_unit && stamp <= now + stamp_unit) return;
    ops_.set_stamp_of_path(path.c_str(), now);  // a read-only folder keeps its stamps; it evicts nothing either
}

std::optional<CachedCubin> CubinCache::load(const CacheKey& key) {
    if (settings_.enabled && may_use(false)) {
        const std::string path = entry_path(folder_, key.digest);
        const EntryBytes file = read_entry_file(path, ops_);
        std::optional<CachedCubin> compiled;
        if (file.outcome == ReadOutcome::read) compiled = decode_entry(key, file.bytes);
        if (compiled) {
            ++hits_;
            bytes_ += static_cast<std::int64_t>(file.bytes.size());
            refresh_stamp(path, file.stamp);
            return compiled;
        }
        if (file.outcome != ReadOutcome::absent) ++damaged_;
    }
    ++misses_;
    return std::nullopt;
}

void CubinCache::publish(const CacheKey& key, const CachedCubin& compiled) noexcept try {
    if (!settings_.enabled) return;
    if (!is_publishable(key, compiled)) {
        ++failed_;
        return;
    }
    if (!may_use(true)) {
        ++failed_;
        return;
    }
    const auto bytes = encode_entry(key, compiled);
    const auto size = static_cast<std::int64_t>(bytes.size());
    if (size > settings_.most_bytes) {
        ++failed_;
        warn_about_cache("kernel " + compiled.kernel + " takes " + std::to_string(size) +
                         " bytes, more than TESSERA_CACHE_SIZE allows for all kernels together");
        return;
    }
    std::string why;
    if (!write_entry_file(folder_, key.digest, bytes, ops_, &why)) {
        ++failed_;
        warn_about_cache(why);
        return;
    }
    ++published_;
    bytes_ += size;
    keep_size(size);
} catch (const std::exception&) {
    ++failed_;  // out of memory: the caller still has the kernel
}

/// Searches the folder at the first publication, then only when it may be full.
void CubinCache::keep_size(std::int64_t added) {
    const std::unique_lock lock(size_mutex_, std::try_to_lock);
    if (!lock) return;
    if (known_bytes_ >= 0) known_bytes_ += added;
    if (known_bytes_ >= 0 && known_bytes_ <= settings_.most_bytes && ++published_since_search_ < search_every) return;
    published_since_search_ = 0;
    auto files = scan_folder(folder_, ops_);
    remove_leftovers(files, ops_);
    evict_from(std::move(files));
}

CacheStats CubinCache::stats() const { return {hits_, misses_, damaged_, published_, failed_, evicted_, bytes_}; }

}  // namespace tessera::runtime

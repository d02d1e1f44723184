#include <cstdio>
#include <ctime>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/cache/cubin_cache.hpp"
#include "tools/tessera/commands.hpp"

namespace tessera::tool {

namespace {

std::string folder_of(const runtime::CubinCache& cache) {
    const std::string folder = cache.settings().folder.string();
    return folder.empty() ? "no folder (set TESSERA_CACHE_DIR)" : folder;
}

std::string time_text(std::int64_t seconds) {
    const auto when = static_cast<std::time_t>(seconds);
    std::tm parts = {};
    char text[32] = "";
    if (::localtime_r(&when, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
    return text;
}

/// What a line of a key says, such as "sm_90a" for "target".
std::string line_of(const std::string& key_text, const std::string& name) {
    const std::size_t at = ("\n" + key_text).find("\n" + name + " ");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size() + 1;
    return key_text.substr(begin, key_text.find('\n', begin) - begin);
}

}  // namespace

int cache_list() {
    const runtime::CubinCache cache;
    std::int64_t bytes = 0;
    const std::vector<runtime::CacheEntry> entries = cache.list();
    for (const runtime::CacheEntry& entry : entries) {
        fmt::print("{}  {:<8} {:>8}  {}  {}\n", entry.key, line_of(entry.key_text, "target"), entry.bytes,
                   time_text(entry.last_use), entry.kernel.empty() ? "(of another version)" : entry.kernel);
        bytes += entry.bytes;
    }
    fmt::print("{} entries, {} of at most {} bytes, in {}\n", entries.size(), bytes, cache.settings().most_bytes,
               folder_of(cache));
    return 0;
}

int cache_clear() {
    runtime::CubinCache cache;
    const std::int64_t removed = cache.clear();
    fmt::print("removed {} entries from {}\n", removed, folder_of(cache));
    return 0;
}

int cache_verify() {
    const runtime::CubinCache cache;
    const runtime::CacheVerification found = cache.verify();
    for (const std::string& path : found.damaged) fmt::print("damaged  {}\n", path);
    fmt::print("{} sound, {} of another version, {} damaged, in {}\n", found.sound, found.other_format,
               found.damaged.size(), folder_of(cache));
    if (found.damaged.empty()) return 0;
    fmt::print("the next use of a damaged entry replaces it; `tessera cache clear` removes all entries\n");
    return 1;
}

}  // namespace tessera::tool

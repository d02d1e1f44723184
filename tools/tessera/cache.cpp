#include <cstdio>
#include <ctime>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/cache/bundle.hpp"
#include "runtime/cache/cubin_cache.hpp"
#include "runtime/cache/transfer.hpp"
#include "tools/tessera/commands.hpp"
#include "tools/tessera/units.hpp"

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

}  // namespace

int cache_list() {
    const runtime::CubinCache cache;
    std::int64_t bytes = 0;
    const std::vector<runtime::CacheEntry> entries = cache.list();
    for (const runtime::CacheEntry& entry : entries) {
        fmt::print("{}  {:<8} {:>8}  {}  {}\n", entry.key, runtime::line_of_key(entry.key_text, "target"), entry.bytes,
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

int cache_prune(const CachePruneRequest& request) {
    runtime::PruneLimits limits;
    if (!request.size.empty()) limits.bytes = bytes_of(request.size, "--size");
    if (!request.age.empty()) limits.seconds = seconds_of(request.age, "--age");
    if (!limits.bytes && !limits.seconds) throw UsageError("say what to keep: --size 512M, --age 30d, or both");
    runtime::CubinCache cache;
    const runtime::PruneResult result = cache.prune(limits);
    fmt::print("removed {} entries ({}), kept {} ({}), in {}\n", result.removed, bytes_text(result.removed_bytes),
               result.kept, bytes_text(result.kept_bytes), folder_of(cache));
    return 0;
}

int cache_export(const CacheBundleRequest& request) {
    const runtime::CubinCache cache;
    const runtime::ExportResult result = runtime::export_bundle(cache, request.path, request.force);
    fmt::print("{} kernels, {}, written to {}\n", result.exported, bytes_text(result.bytes), request.path);
    if (result.same_kernel > 0)
        fmt::print("left out: {} that another NVRTC made of the same text, used less recently\n", result.same_kernel);
    if (result.unusable > 0)
        fmt::print("left out: {} damaged or of another version (`tessera cache verify`)\n", result.unusable);
    runtime::Bundle bundle(request.path);
    if (!bundle.problem().empty()) fmt::print("where it lies now it would not be used: {}\n", bundle.problem());
    return 0;
}

int cache_import(const CacheBundleRequest& request) {
    runtime::CubinCache cache;
    if (!cache.settings().enabled) throw UsageError("the cubin cache is switched off; unset TESSERA_CACHE");
    const runtime::ImportResult result = runtime::import_bundle(cache, request.path);
    fmt::print("{} kernels imported, {} there already, in {}\n", result.imported, result.there, folder_of(cache));
    if (result.unsound > 0) fmt::print("passed over: {} damaged or of another version\n", result.unsound);
    if (result.failed > 0) fmt::print("{} could not be written\n", result.failed);
    return result.failed > 0 ? 1 : 0;
}

}  // namespace tessera::tool

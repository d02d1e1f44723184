#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/bundle_index.hpp"
#include "runtime/cache/entry.hpp"
#include "runtime/cache/file_ops.hpp"
#include "runtime/cache/open_file.hpp"

namespace tessera::runtime {

/// Compiled kernels that travel with a program: a file, or a folder of entries, made by export_bundle and never written
/// here. It serves a kernel whichever NVRTC made it, also where there is none. Any thread may ask. Code is taken from
/// it only if it and its folder belong to the user or root and nobody else can write them; each entry is checked as one
/// of the cache. What is wrong with it is no error: one warning in a process, and the kernel is compiled.
class Bundle {
public:
    /// Nothing is opened before the first request. An empty path: no bundle.
    explicit Bundle(std::filesystem::path path, const FileOps& ops = real_file_ops());
    Bundle(const Bundle&) = delete;
    Bundle& operator=(const Bundle&) = delete;

    /// TESSERA_CACHE_BUNDLE; unset: tessera.bundle in the program's folder if it exists, else empty.
    static std::filesystem::path path_from_environment();

    const std::string& path() const { return path_; }

    /// The kernel of that text, target and options.
    std::optional<CachedCubin> find(const CacheKey& key);

    /// Why it cannot be used, as a sentence; empty if it can (or if there is none).
    const std::string& problem();

    /// Hands over every sound entry, in ascending order of names. Returns how many others there are.
    std::int64_t each(const std::function<void(const KeptEntry&)>& take);

private:
    void open();
    void open_file();
    std::vector<std::byte> bytes_of(const Digest& name) const;
    std::vector<std::byte> bytes_of(const BundleItem& item) const;

    std::string path_;
    const FileOps& ops_;
    std::once_flag once_;
    std::string problem_;
    std::string place_;  // where links of the path lead
    bool is_folder_ = false;
    OpenFile file_;
    std::vector<BundleItem> items_;  // of a file
};

}  // namespace tessera::runtime

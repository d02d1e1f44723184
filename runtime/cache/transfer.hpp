#pragma once

#include <cstdint>
#include <string>

#include "runtime/cache/bundle.hpp"
#include "runtime/cache/cubin_cache.hpp"

namespace tessera::runtime {

struct ExportResult {
    std::int64_t exported = 0, bytes = 0;
    std::int64_t same_kernel = 0;  // left out: what another compiler made of the same text, used less recently
    std::int64_t unusable = 0;     // left out: damaged, or of another version of the library
};

/// Writes the entries of the cache folder as a bundle, one for each text, target and set of options. `path` is a file,
/// or a folder if it is one already or ends with a slash; a folder gains what it lacks. Everybody may read the result.
/// Errors: UsageError if there is nothing to export, if the file exists (without `overwrite`) or if it cannot be
/// written.
ExportResult export_bundle(const CubinCache& cache, const std::string& path, bool overwrite);

struct ImportResult {
    std::int64_t imported = 0;
    std::int64_t there = 0;   // kept already
    std::int64_t failed = 0;  // could not be published
    std::int64_t unsound = 0;
};

/// Publishes the entries of a bundle, or of another cache folder, in the cache: each serves the compiler that made it.
/// Errors: UsageError if the bundle cannot be used.
ImportResult import_bundle(CubinCache& cache, const std::string& path);

}  // namespace tessera::runtime

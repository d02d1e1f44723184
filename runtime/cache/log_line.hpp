#pragma once

#include <string>
#include <string_view>

#include "runtime/cache/cache_key.hpp"

namespace tessera::runtime {

/// "tessera: <kernel> <first 12 digits of the key> <outcome> <milliseconds> ms". `outcome` is hit, miss or the like.
std::string lookup_line(std::string_view kernel, const CacheKey& key, std::string_view outcome, double milliseconds);

/// Writes that line to stderr if TESSERA_VERBOSE is on.
void log_lookup(std::string_view kernel, const CacheKey& key, std::string_view outcome, double milliseconds);

}  // namespace tessera::runtime

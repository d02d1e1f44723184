#include "runtime/cache/log_line.hpp"

#include <cstdio>

#include "runtime/settings.hpp"

namespace tessera::runtime {

std::string lookup_line(std::string_view kernel, const CacheKey& key, std::string_view outcome, double milliseconds) {
    char number[32];
    std::snprintf(number, sizeof number, "%.2f", milliseconds);
    return "tessera: " + std::string(kernel) + " " + key.hex().substr(0, 12) + " " + std::string(outcome) + " " +
           number + " ms";
}

void log_lookup(std::string_view kernel, const CacheKey& key, std::string_view outcome, double milliseconds) {
    if (!setting_on("TESSERA_VERBOSE")) return;
    std::fprintf(stderr, "%s\n", lookup_line(kernel, key, outcome, milliseconds).c_str());
}

}  // namespace tessera::runtime

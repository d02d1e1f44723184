#include "runtime/cache/log_line.hpp"

#include <cstdio>
#include <fmt/format.h>

#include "runtime/settings.hpp"

namespace tessera::runtime {

std::string lookup_line(std::string_view kernel, std::string_view arch, std::string_view key, std::string_view outcome,
                        double milliseconds) {
    return fmt::format("tessera: {} {} {} {} {:.1f} ms", kernel, arch, key.substr(0, 12), outcome, milliseconds);
}

void log_lookup(std::string_view kernel, std::string_view arch, std::string_view key, std::string_view outcome,
                double milliseconds) {
    constexpr double slow_ms = 1000;
    if (milliseconds < slow_ms && !setting_on("TESSERA_VERBOSE")) return;
    fmt::print(stderr, "{}\n", lookup_line(kernel, arch, key, outcome, milliseconds));
}

}  // namespace tessera::runtime

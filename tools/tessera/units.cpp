#include "tools/tessera/units.hpp"

#include <charconv>
#include <fmt/format.h>
#include <limits>

#include "dsl/base/error.hpp"
#include "runtime/json.hpp"
#include "runtime/settings.hpp"

namespace tessera::tool {

namespace {

std::int64_t seconds_in(char unit) {
    switch (unit) {
        case 's': return 1;
        case 'm': return 60;
        case 'h': return 3600;
        case 'd': return 24 * 3600;
        case 'w': return 7 * 24 * 3600;
        default: return 0;
    }
}

}  // namespace

std::int64_t bytes_of(const std::string& text, const char* name) {
    if (const auto bytes = runtime::bytes_in(text)) return *bytes;
    throw UsageError(fmt::format("{} {} is no number of bytes; give digits with K, M or G behind them, such as 512M",
                                 name, json::shown(text)));
}

std::int64_t seconds_of(const std::string& text, const char* name) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    const std::int64_t unit = stop + 1 == end ? seconds_in(*stop) : 0;
    if (error == std::errc{} && unit != 0 && number >= 0 && number <= std::numeric_limits<std::int64_t>::max() / unit)
        return number * unit;
    throw UsageError(fmt::format("{} {} is no time; give digits with s, m, h, d or w behind them, such as 30d", name,
                                 json::shown(text)));
}

std::string bytes_text(std::int64_t bytes) {
    if (bytes < 10'000) return fmt::format("{} bytes", bytes);
    if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) * 1e-3);
    return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

}  // namespace tessera::tool

#pragma once

#include <cstdint>
#include <string>

namespace tessera::tool {

/// "512M" and the like, for the option `name`. Errors: UsageError.
std::int64_t bytes_of(const std::string& text, const char* name);

/// Seconds of a time such as "90s", "15m", "12h", "30d" or "8w", for the option `name`. Errors: UsageError.
std::int64_t seconds_of(const std::string& text, const char* name);

/// "1.4 MB", "12 kB", "300 bytes".
std::string bytes_text(std::int64_t bytes);

}  // namespace tessera::tool

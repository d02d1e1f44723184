#pragma once

#include <string>
#include <string_view>

namespace tessera::runtime {

/// "tessera: per_token_cast sm_90a 906173a23ab9 compiled 84.3 ms": one line says what was asked for (`key` in hex), and
/// how it was obtained.
std::string lookup_line(std::string_view kernel, std::string_view arch, std::string_view key, std::string_view outcome,
                        double milliseconds);

/// Prints the line to stderr with TESSERA_VERBOSE on; without it, what took a second or more.
void log_lookup(std::string_view kernel, std::string_view arch, std::string_view key, std::string_view outcome,
                double milliseconds);

}  // namespace tessera::runtime

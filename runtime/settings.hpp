#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::runtime {

/// One row of the table of settings: an environment variable that the library reads.
struct Setting {
    enum class Kind : std::uint8_t { text, on_off, bytes, count, file_or_folder, folder };
    const char* name;
    const char* default_value;  // as a user would write it; "" means unset
    const char* meaning;        // of a switch: what is done when it is on
    Kind kind = Kind::text;
};

/// What a setting means and, of a switch, how it is written.
std::string description(const Setting& setting);

/// Every TESSERA_… setting, in the order in which `tessera doctor` prints them.
std::span<const Setting> settings_table();

/// Variables of the system that the library reads too (HOME, XDG_CACHE_HOME, …).
std::span<const Setting> system_variables();

/// The value of a variable of either table as the environment has it at this moment; unset and empty are nullopt.
/// This is the only place that reads the environment. Errors: InternalError for a name that is in neither table.
std::optional<std::string> environment(std::string_view name);

/// A switch: on, off, 1, 0, true, false, yes or no, in any case; its default if unset. Errors: UsageError.
bool setting_on(std::string_view name);

/// The number of bytes that a text such as "512M" means: digits, with K, M or G (powers of 1024) behind them if wanted.
std::optional<std::int64_t> bytes_in(std::string_view text);

/// A number of bytes, with K, M or G (powers of 1024) behind it if wanted; its default if unset. Errors: UsageError.
std::int64_t setting_bytes(std::string_view name);

/// A whole number ≥ 0; its default if unset. Errors: UsageError.
int setting_count(std::string_view name);

/// What is wrong with the value that the environment has now, with the cure; empty if nothing is.
std::string setting_problem(const Setting& setting);

/// Names of variables that look like settings and are none, such as TESSERA_CACHEDIR.
std::vector<std::string> unknown_settings();

/// A path made absolute; nullopt if unset.
std::optional<std::filesystem::path> setting_path(std::string_view name);

/// $XDG_CACHE_HOME/tessera, else ~/.cache/tessera with ~ from HOME or else the user database; nullopt if there is no
/// home.
std::optional<std::filesystem::path> default_cache_folder();

}  // namespace tessera::runtime

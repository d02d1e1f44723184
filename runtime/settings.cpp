#include "runtime/settings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <pwd.h>
#include <unistd.h>
#include <vector>

#include "dsl/base/error.hpp"

namespace tessera::runtime {

namespace {

using Kind = Setting::Kind;

constexpr std::array settings = {
    Setting{"TESSERA_CACHE", "on", "keep compiled kernels on disk", Kind::on_off},
    Setting{"TESSERA_CACHE_DIR", "", "folder of the cubin cache; unset: $XDG_CACHE_HOME/tessera, else ~/.cache/tessera",
            Kind::folder},
    Setting{"TESSERA_CACHE_SIZE", "1G",
            "bytes that the cubin cache may take, with K, M or G; least recently used go first", Kind::bytes},
    Setting{"TESSERA_CACHE_BUNDLE", "",
            "bundle of compiled kernels (tessera cache export), asked after the cache folder and before the compiler; "
            "unset: tessera.bundle in the program's folder, if there is one",
            Kind::file_or_folder},
    Setting{"TESSERA_NVRTC", "", "libnvrtc itself or the folder that holds it; unset: searched for",
            Kind::file_or_folder},
    Setting{"TESSERA_CUPTI", "",
            "libcupti itself or the folder that holds it, with which `tessera bench` times; unset: searched for",
            Kind::file_or_folder},
    Setting{"TESSERA_LINEINFO", "off",
            "compile kernels with line information for profilers, and keep the CUDA text that it names", Kind::on_off},
    Setting{"TESSERA_KEEP_SOURCE", "",
            "folder into which the CUDA text of every compiled kernel is written; unset: none, but with "
            "TESSERA_LINEINFO the folder source of the cubin cache",
            Kind::folder},
    Setting{"TESSERA_MEMORY_CACHE", "64M",
            "bytes of GPU memory, with K, M or G, that a stream keeps for its next tensors; 0: none, which "
            "compute-sanitizer needs to see the use of a tensor that was given up",
            Kind::bytes},
    Setting{"TESSERA_HOST_CHECK", "on", "the host executor checks bounds, alignment and shared-memory races",
            Kind::on_off},
    Setting{"TESSERA_HOST_WORKERS", "0", "threads of the host executor; 0: one for each core", Kind::count},
    Setting{"TESSERA_VERBOSE", "off", "a line on stderr for every kernel looked up (name, key, hit or miss, ms)",
            Kind::on_off},
};

constexpr std::array variables = {
    Setting{"XDG_CACHE_HOME", "", "parent of the default cache folder"},
    Setting{"HOME", "", "its .cache is the parent of the default cache folder if XDG_CACHE_HOME is unset"},
    Setting{"CUDA_HOME", "", "toolkit folder, searched for libnvrtc and libcupti"},
    Setting{"CUDA_PATH", "", "toolkit folder, searched for libnvrtc and libcupti"},
    Setting{"VIRTUAL_ENV", "", "Python environment, searched for wheels with libnvrtc and libcupti"},
    Setting{"PATH", "", "searched for a disassembler"},
    Setting{"COLUMNS", "", "width of progress bars"},
    Setting{"NO_COLOR", "", "any value: plain output"},
};

const Setting* find(std::span<const Setting> table, std::string_view name) {
    for (const Setting& row : table) {
        if (name == row.name) return &row;
    }
    return nullptr;
}

const Setting& row_of(std::string_view name) {
    const Setting* row = find(settings, name);
    require_internal(row != nullptr, "a setting is not in the table of settings");
    return *row;
}

[[noreturn]] void refuse(const Setting& row, const std::string& value, const std::string& expected) {
    const std::string standard = *row.default_value ? std::string(" for the default ") + row.default_value : "";
    throw UsageError(std::string(row.name) + " is \"" + value + "\", which is not " + expected + " (" + row.meaning +
                     "). Correct it, or unset it" + standard + ".");
}

std::string text_or_default(const Setting& row) { return environment(row.name).value_or(row.default_value); }

std::optional<bool> parse_switch(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (text == "on" || text == "1" || text == "true" || text == "yes") return true;
    if (text == "off" || text == "0" || text == "false" || text == "no") return false;
    return std::nullopt;
}

std::optional<std::int64_t> parse_number(std::string_view text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
    return number;
}

std::optional<std::filesystem::path> home_folder() {
    if (const auto home = environment("HOME")) return std::filesystem::path(*home);
    std::vector<char> buffer(16 * 1024);
    passwd entry{};
    passwd* found = nullptr;
    if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || !found || !found->pw_dir ||
        !*found->pw_dir) {
        return std::nullopt;
    }
    return std::filesystem::path(found->pw_dir);
}

}  // namespace

std::span<const Setting> settings_table() { return settings; }

std::span<const Setting> system_variables() { return variables; }

std::string description(const Setting& setting) {
    const std::string meaning = setting.meaning;
    return setting.kind == Kind::on_off ? "on or off (or 1 or 0): " + meaning : meaning;
}

std::optional<std::string> environment(std::string_view name) {
    const Setting* row = find(settings, name);
    if (!row) row = find(variables, name);
    require_internal(row != nullptr, "a variable of the environment is not in the tables of settings");
    const char* value = std::getenv(row->name);
    if (!value || !*value) return std::nullopt;
    return std::string(value);
}

bool setting_on(std::string_view name) {
    const Setting& row = row_of(name);
    const std::string text = text_or_default(row);
    const auto on = parse_switch(text);
    if (!on) refuse(row, text, "a switch: on or off is expected; 1, true and yes, or 0, false and no, mean the same");
    return *on;
}

std::optional<std::int64_t> bytes_in(std::string_view text) {
    int shift = 0;
    if (!text.empty()) {
        switch (text.back()) {
            case 'K':
            case 'k': shift = 10; break;
            case 'M':
            case 'm': shift = 20; break;
            case 'G':
            case 'g': shift = 30; break;
            default: break;
        }
    }
    if (shift) text.remove_suffix(1);
    const auto number = parse_number(text);
    if (!number || *number > std::numeric_limits<std::int64_t>::max() >> shift) return std::nullopt;
    return *number << shift;
}

std::int64_t setting_bytes(std::string_view name) {
    const Setting& row = row_of(name);
    const std::string text = text_or_default(row);
    const auto bytes = bytes_in(text);
    if (!bytes)
        refuse(row, text, "a number of bytes: digits with K, M or G behind them if wanted are expected, as in 512M");
    return *bytes;
}

int setting_count(std::string_view name) {
    const Setting& row = row_of(name);
    const std::string text = text_or_default(row);
    const auto number = parse_number(text);
    if (!number || *number > 65536) refuse(row, text, "a whole number from 0 to 65536");
    return static_cast<int>(*number);
}

std::optional<std::filesystem::path> setting_path(std::string_view name) {
    const auto text = environment(row_of(name).name);
    if (!text) return std::nullopt;
    std::error_code error;
    auto absolute = std::filesystem::absolute(*text, error);
    return error ? std::filesystem::path(*text) : absolute;
}

std::string setting_problem(const Setting& setting) {
    namespace fs = std::filesystem;
    try {
        if (setting.kind == Kind::on_off) setting_on(setting.name);
        if (setting.kind == Kind::bytes) setting_bytes(setting.name);
        if (setting.kind == Kind::count) setting_count(setting.name);
        const bool names_path = setting.kind == Kind::file_or_folder || setting.kind == Kind::folder;
        const auto path = names_path ? setting_path(setting.name) : std::nullopt;
        if (!path) return "";
        std::error_code error;
        const fs::file_status status = fs::status(*path, error);
        if (setting.kind == Kind::file_or_folder && !fs::exists(status))
            refuse(setting, path->native(), "a file or folder that is there");
        if (setting.kind == Kind::folder && fs::exists(status) && !fs::is_directory(status))
            refuse(setting, path->native(), "a folder");
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

std::vector<std::string> unknown_settings() {
    constexpr std::string_view start = "TESSERA_";
    std::vector<std::string> unknown;
    for (char** entry = environ; entry && *entry; ++entry) {
        const std::string_view text = *entry, name = text.substr(0, text.find('='));
        if (name.substr(0, start.size()) == start && !find(settings, name)) unknown.emplace_back(name);
    }
    std::sort(unknown.begin(), unknown.end());
    return unknown;
}

std::optional<std::filesystem::path> default_cache_folder() {
    // The XDG rules say that a relative XDG_CACHE_HOME is to be ignored.
    if (const auto xdg = environment("XDG_CACHE_HOME"); xdg && xdg->front() == '/') {
        return std::filesystem::path(*xdg) / "tessera";
    }
    const auto home = home_folder();
    if (!home || !home->is_absolute()) return std::nullopt;
    return *home / ".cache" / "tessera";
}

}  // namespace tessera::runtime

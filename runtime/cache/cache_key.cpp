#include "runtime/cache/cache_key.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/cache/source_text.hpp"

namespace tessera::runtime {

namespace {

using Spelling = std::pair<std::string_view, std::string_view>;

constexpr std::array long_names = {
    Spelling{"--arch", "--gpu-architecture"}, Spelling{"--lineinfo", "--generate-line-info"},
    Spelling{"--G", "--device-debug"},        Spelling{"--rdc", "--relocatable-device-code"},
    Spelling{"--Xptxas", "--ptxas-options"},  Spelling{"--dlto", "--dlink-time-opt"},
};

// What NVRTC does without the option (whatever its version; the default of --std is not among these).
constexpr std::array<std::string_view, 6> defaults = {
    "--fmad=true",      "--ftz=false",     "--relocatable-device-code=false",
    "--prec-sqrt=true", "--prec-div=true", "--split-compile=1",
};

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n\v\f";
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view name_of(std::string_view option) { return option.substr(0, option.find('=')); }

std::string one_spelling(std::string_view option) {
    option = trimmed(option);
    std::string text(option);
    if (option.size() > 1 && option[0] == '-' && option[1] != '-') text.insert(text.begin(), '-');
    const std::string_view name = name_of(text);
    for (const auto& [other, long_name] : long_names) {
        if (name == other) return std::string(long_name) + text.substr(name.size());
    }
    return text;
}

constexpr const char* compiler_line = "\ncompiler ";

/// A value without ends of lines, so that nothing can be moved from one line of the key to another unseen.
std::string one_line(std::string_view value) {
    std::string text;
    for (const char c : value) {
        if (c == '\\') {
            text += "\\\\";
        } else if (c == '\n') {
            text += "\\n";
        } else {
            text += c;
        }
    }
    return text;
}

bool is_default(const std::string& option) {
    return std::find(defaults.begin(), defaults.end(), option) != defaults.end();
}

}  // namespace

std::string CacheKey::hex() const { return runtime::hex(digest); }

std::vector<std::string> normalised_options(std::span<const std::string> options) {
    std::multimap<std::string, std::string> by_name;  // keeps the order among equal names
    for (const std::string& option : options) {
        std::string text = one_spelling(option);
        if (!text.empty()) by_name.emplace(name_of(text), std::move(text));
    }
    std::vector<std::string> result;
    for (const auto& [name, option] : by_name) {
        if (result.empty() || result.back() != option) result.push_back(option);
    }
    // A default counts only where it overrules something: another value of its option, or what fast math implies.
    const auto overrules = [&](const std::string& option) {
        return std::any_of(result.begin(), result.end(), [&](const std::string& other) {
            return other == "--use_fast_math" || (name_of(other) == name_of(option) && other != option);
        });
    };
    std::vector<std::string> kept;
    std::copy_if(result.begin(), result.end(), std::back_inserter(kept),
                 [&](const std::string& option) { return !is_default(option) || overrules(option); });
    return kept;
}

CacheKey key_of_text(std::string text) {
    CacheKey key;
    key.digest = xxh3_128(std::as_bytes(std::span(text)));
    key.text = std::move(text);
    return key;
}

CacheKey make_key(std::string_view cuda_text, std::string_view target, std::string_view nvrtc_identity,
                  std::span<const std::string> options) {
    const auto normalised = normalised_options(options);
    const bool line_info = std::any_of(normalised.begin(), normalised.end(), [](const std::string& option) {
        return option == "--generate-line-info" || option == "--device-debug";
    });
    const std::string source = canonical_source(cuda_text, line_info || mentions_lines(cuda_text));

    std::string text = "format " + std::to_string(cache_format);
    text += "\ntarget " + one_line(target);
    text += compiler_line + one_line(nvrtc_identity);
    for (const std::string& option : normalised) text += "\noption " + one_line(option);
    text += "\nsource " + hex(xxh3_128(std::as_bytes(std::span(source))));
    return key_of_text(std::move(text));
}

std::string portable_text(std::string_view key_text) {
    const std::size_t begin = key_text.find(compiler_line);
    if (begin == std::string_view::npos) return std::string(key_text);
    const std::size_t end = std::min(key_text.find('\n', begin + 1), key_text.size());
    return std::string(key_text.substr(0, begin)) + std::string(key_text.substr(end));
}

std::string line_of_key(std::string_view key_text, std::string_view name) {
    while (!key_text.empty()) {
        const std::string_view line = key_text.substr(0, key_text.find('\n'));
        if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ')
            return std::string(line.substr(name.size() + 1));
        key_text.remove_prefix(std::min(line.size() + 1, key_text.size()));
    }
    return "";
}

}  // namespace tessera::runtime

#pragma once

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

/// What a command line asks instead of a run: --help prints `usage` (exit code 0), and so does an argument that is not
/// among `known`, on stderr (exit code 2). Nothing if the example is to run.
inline std::optional<int> answer(int argc, char** argv, const char* usage,
                                 const std::vector<std::string_view>& known = {}) {
    for (const std::string_view argument : std::vector<std::string_view>(argv + 1, argv + argc)) {
        if (std::find(known.begin(), known.end(), argument) != known.end()) continue;
        const bool help = argument == "--help" || argument == "-h";
        std::fprintf(help ? stdout : stderr, "usage: %s\n", usage);
        return help ? 0 : 2;
    }
    return std::nullopt;
}

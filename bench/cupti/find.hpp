#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera::bench::cupti {

/// Where libcupti lies, found without loading it.
struct LibrarySearch {
    std::optional<std::filesystem::path> path;
    std::vector<std::string> looked;  // folders in the order of the search, up to the find
    std::string problem;              // why there is none: a sentence with its cure
};

/// Looks as for libnvrtc: the setting TESSERA_CUPTI, the program's folder and its cupti/, the loader path, toolkit
/// folders, Python wheels.
LibrarySearch search_library();

/// What the search finds. Errors: UsageError if that is nothing.
std::filesystem::path find_library();

}  // namespace tessera::bench::cupti

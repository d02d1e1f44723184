#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace tessera::runtime {

/// Where a library of CUDA lies, below the folders in which all are looked for.
struct LibraryPlaces {
    const char* beside_program;            // sub-folder of the program's own, which is looked at too
    std::vector<const char*> in_toolkits;  // below a toolkit's root
    std::vector<const char*> in_wheels;    // below a Python environment's packages
};

/// Shows `visit` each folder once, until it says true, which is the result: the program's folder and the one beside it,
/// the loader path, toolkit folders, Python wheels. Later lists are made only when it comes to them.
bool visit_library_folders(const LibraryPlaces& places, const std::function<bool(const std::filesystem::path&)>& visit);

/// What is in `parent` and has a name that begins so, the last in the alphabet (the newest version) first.
std::vector<std::filesystem::path> children_of(const std::filesystem::path& parent, std::string_view beginning);

}  // namespace tessera::runtime

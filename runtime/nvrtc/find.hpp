#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera::runtime {

/// Where libnvrtc lies, found without loading it: a kernel that is in the cache needs only the library's identity.
struct NvrtcSearch {
    std::optional<std::filesystem::path> path;
    std::string identity;             // library_identity of the file; empty: none found
    std::vector<std::string> looked;  // folders in the order of the search, up to the find
    std::string problem;              // why there is none: a sentence with its cure
};

/// The search of this process, done once: the setting TESSERA_NVRTC, the program's folder and its nvrtc/, the loader
/// path, toolkit folders, Python wheels; in all of them under its usual names before in any under another.
const NvrtcSearch& nvrtc_search();

/// The same search done anew, for the setting's present value.
NvrtcSearch search_nvrtc();

/// libnvrtc in one folder: libnvrtc.so.13, else .12, else any other; nullopt if there is none.
std::optional<std::filesystem::path> nvrtc_in(const std::filesystem::path& folder);

}  // namespace tessera::runtime

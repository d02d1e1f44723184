#include "runtime/nvrtc/find.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dsl/base/error.hpp"
#include "runtime/build_id.hpp"
#include "runtime/library_folders.hpp"
#include "runtime/settings.hpp"

namespace tessera::runtime {

namespace fs = std::filesystem;

namespace {

constexpr const char* how_to_get_one =
    "install a CUDA toolkit, or unpack the Python wheel nvidia-cuda-nvrtc==13.0.88 into a folder and name the folder "
    "that holds libnvrtc.so.13 in TESSERA_NVRTC";

NvrtcSearch search_setting(const fs::path& setting) {
    NvrtcSearch search;
    search.looked.push_back(setting.native());
    std::error_code error;
    if (fs::is_directory(setting, error))
        search.path = nvrtc_in(setting);
    else if (fs::is_regular_file(setting, error))
        search.path = setting;
    if (!search.path)
        search.problem = fmt::format(
            "TESSERA_NVRTC is \"{}\", where there is no libnvrtc; correct it, or unset it to search "
            "the usual folders",
            setting.native());
    return search;
}

/// By the names that it usually has: no folder is listed, which for the system's own takes a millisecond.
std::optional<fs::path> nvrtc_by_name(const fs::path& folder) {
    std::error_code error;
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
        if (fs::is_regular_file(folder / name, error)) return folder / name;
    return std::nullopt;
}

NvrtcSearch search_folders() {
    NvrtcSearch search;
    const auto has_one = [&](const fs::path& folder) {
        search.looked.push_back(folder.native());
        search.path = nvrtc_by_name(folder);
        return search.path.has_value();
    };
    if (visit_library_folders({"nvrtc", {"lib64"}, {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}}, has_one))
        return search;
    for (const std::string& folder : search.looked) {
        search.path = nvrtc_in(folder);
        if (search.path) return search;
    }
    search.problem = fmt::format("there is no libnvrtc, the compiler that kernels need; {} (looked in {})",
                                 how_to_get_one, fmt::join(search.looked, ", "));
    return search;
}

}  // namespace

std::optional<fs::path> nvrtc_in(const fs::path& folder) {
    if (auto usual = nvrtc_by_name(folder)) return usual;
    std::error_code error;
    for (const fs::path& other : children_of(folder, "libnvrtc.so."))
        if (fs::is_regular_file(other, error)) return other;
    return std::nullopt;
}

NvrtcSearch search_nvrtc() {
    const auto setting = setting_path("TESSERA_NVRTC");
    NvrtcSearch search = setting ? search_setting(*setting) : search_folders();
    if (search.path) search.identity = library_identity(*search.path);
    return search;
}

const NvrtcSearch& nvrtc_search() {
    static const NvrtcSearch& search = *new NvrtcSearch(search_nvrtc());  // threads may compile while the process ends
    return search;
}

}  // namespace tessera::runtime

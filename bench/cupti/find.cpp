#include "bench/cupti/find.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/library_folders.hpp"
#include "runtime/settings.hpp"

namespace tessera::bench::cupti {

namespace fs = std::filesystem;

namespace {

std::optional<fs::path> library_in(const fs::path& folder) {
    std::error_code error;
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
        if (fs::is_regular_file(folder / name, error)) return folder / name;
    return std::nullopt;
}

LibrarySearch search_setting(const fs::path& setting) {
    LibrarySearch search;
    search.looked.push_back(setting.native());
    std::error_code error;
    search.path = fs::is_regular_file(setting, error) ? setting : library_in(setting);
    if (!search.path)
        search.problem = fmt::format(
            "TESSERA_CUPTI is \"{}\", where there is no libcupti; correct it, or unset it to search the usual folders",
            setting.native());
    return search;
}

}  // namespace

LibrarySearch search_library() {
    if (const auto setting = runtime::setting_path("TESSERA_CUPTI")) return search_setting(*setting);
    LibrarySearch search;
    const runtime::LibraryPlaces places{
        "cupti", {"lib64", "extras/CUPTI/lib64"}, {"nvidia/cu13/lib", "nvidia/cuda_cupti/lib"}};
    runtime::visit_library_folders(places, [&](const fs::path& folder) {
        search.looked.push_back(folder.native());
        search.path = library_in(folder);
        return search.path.has_value();
    });
    if (!search.path)
        search.problem =
            "there is no libcupti; install a CUDA toolkit or the Python wheel nvidia-cuda-cupti, or name the folder "
            "that holds it in TESSERA_CUPTI";
    return search;
}

fs::path find_library() {
    const LibrarySearch search = search_library();
    if (!search.path) throw UsageError(search.problem);
    return *search.path;
}

}  // namespace tessera::bench::cupti

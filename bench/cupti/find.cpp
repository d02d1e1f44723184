#include "bench/cupti/find.hpp"

#include <fmt/format.h>
#include <optional>

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

}  // namespace

fs::path find_library() {
    std::optional<fs::path> found;
    if (const auto setting = runtime::setting_path("TESSERA_CUPTI")) {
        std::error_code error;
        found = fs::is_regular_file(*setting, error) ? setting : library_in(*setting);
        if (!found)
            throw UsageError(
                fmt::format("TESSERA_CUPTI is \"{}\", where there is no libcupti; correct it, or unset it "
                            "to search the usual folders",
                            setting->native()));
        return *found;
    }
    const runtime::LibraryPlaces places{
        "cupti", {"lib64", "extras/CUPTI/lib64"}, {"nvidia/cu13/lib", "nvidia/cuda_cupti/lib"}};
    runtime::visit_library_folders(places, [&](const fs::path& folder) {
        found = library_in(folder);
        return found.has_value();
    });
    if (!found)
        throw UsageError(
            "there is no libcupti; install a CUDA toolkit or the Python wheel nvidia-cuda-cupti, or name the folder "
            "that holds it in TESSERA_CUPTI");
    return *found;
}

}  // namespace tessera::bench::cupti

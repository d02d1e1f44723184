#include "runtime/nvrtc/find.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <functional>
#include <link.h>
#include <memory>

#include "dsl/base/error.hpp"
#include "runtime/build_id.hpp"
#include "runtime/settings.hpp"

namespace tessera::runtime {

namespace fs = std::filesystem;

namespace {

constexpr const char* how_to_get_one =
    "install a CUDA toolkit, or unpack the Python wheel nvidia-cuda-nvrtc==13.0.88 into a folder and name the folder "
    "that holds libnvrtc.so.13 in TESSERA_NVRTC";

/// Sub-folders of `parent` whose name begins so, the last in the alphabet (the newest version) first.
std::vector<fs::path> children(const fs::path& parent, std::string_view beginning) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error))
        if (it->path().filename().native().starts_with(beginning)) found.push_back(it->path());
    std::sort(found.rbegin(), found.rend());
    return found;
}

std::vector<fs::path> program_folders() {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    if (error) return {};
    return {program.parent_path(), program.parent_path() / "nvrtc"};
}

/// The loader's own list (LD_LIBRARY_PATH, run paths, system folders), then the folders of its configuration.
std::vector<fs::path> loader_folders() {
    std::vector<fs::path> folders;
    if (void* self = dlopen(nullptr, RTLD_LAZY)) {
        Dl_serinfo size{};
        if (dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
            const std::unique_ptr<char[]> room(new char[size.dls_size]);
            auto* list = reinterpret_cast<Dl_serinfo*>(room.get());
            list->dls_size = size.dls_size;
            list->dls_cnt = size.dls_cnt;
            if (dlinfo(self, RTLD_DI_SERINFO, list) == 0)
                for (unsigned i = 0; i < list->dls_cnt; ++i) folders.emplace_back(list->dls_serpath[i].dls_name);
        }
        dlclose(self);
    }
    std::vector<fs::path> files = children("/etc/ld.so.conf.d", "");
    files.insert(files.begin(), "/etc/ld.so.conf");
    for (const fs::path& file : files) {
        std::ifstream lines(file);
        for (std::string line; std::getline(lines, line);)
            if (line.starts_with('/')) folders.emplace_back(line);
    }
    return folders;
}

std::vector<fs::path> toolkit_folders() {
    std::vector<fs::path> roots;
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
        if (const auto value = environment(name)) roots.emplace_back(*value);
    roots.emplace_back("/usr/local/cuda");
    for (const fs::path& version : children("/usr/local", "cuda-")) roots.push_back(version);
    roots.emplace_back("/opt/cuda");
    std::vector<fs::path> folders;
    for (const fs::path& root : roots) folders.push_back(root / "lib64");
    return folders;
}

std::vector<fs::path> wheel_folders() {
    std::vector<fs::path> prefixes;
    if (const auto environment_folder = environment("VIRTUAL_ENV")) prefixes.emplace_back(*environment_folder);
    if (const auto home = environment("HOME")) prefixes.push_back(fs::path(*home) / ".local");
    for (const char* prefix : {"/usr/local", "/usr", "/opt/conda", "/opt/venv"}) prefixes.emplace_back(prefix);
    std::vector<fs::path> folders;
    for (const fs::path& prefix : prefixes)
        for (const fs::path& python : children(prefix / "lib", "python3"))
            for (const char* packages : {"site-packages", "dist-packages"})
                for (const char* inside : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
                    folders.push_back(python / packages / inside);
    return folders;
}

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
    for (const auto& list : {program_folders, loader_folders, toolkit_folders, wheel_folders})
        for (const fs::path& folder : list()) {
            if (std::find(search.looked.begin(), search.looked.end(), folder.native()) != search.looked.end()) continue;
            search.looked.push_back(folder.native());
            search.path = nvrtc_by_name(folder);
            if (search.path) return search;
        }
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
    for (const fs::path& other : children(folder, "libnvrtc.so."))
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

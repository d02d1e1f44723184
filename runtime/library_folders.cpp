#include "runtime/library_folders.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <fstream>
#include <link.h>
#include <memory>

#include "runtime/settings.hpp"

namespace tessera::runtime {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> program_folders(const LibraryPlaces& places) {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    if (error) return {};
    return {program.parent_path(), program.parent_path() / places.beside_program};
}

/// The loader's own list (LD_LIBRARY_PATH, run paths, system folders), then the folders of its configuration.
std::vector<fs::path> loader_folders(const LibraryPlaces&) {
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
    std::vector<fs::path> files = children_of("/etc/ld.so.conf.d", "");
    files.insert(files.begin(), "/etc/ld.so.conf");
    for (const fs::path& file : files) {
        std::ifstream lines(file);
        for (std::string line; std::getline(lines, line);)
            if (line.starts_with('/')) folders.emplace_back(line);
    }
    return folders;
}

std::vector<fs::path> toolkit_folders(const LibraryPlaces& places) {
    std::vector<fs::path> roots;
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
        if (const auto value = environment(name)) roots.emplace_back(*value);
    roots.emplace_back("/usr/local/cuda");
    for (const fs::path& version : children_of("/usr/local", "cuda-")) roots.push_back(version);
    roots.emplace_back("/opt/cuda");
    std::vector<fs::path> folders;
    for (const fs::path& root : roots)
        for (const char* inside : places.in_toolkits) folders.push_back(root / inside);
    return folders;
}

std::vector<fs::path> wheel_folders(const LibraryPlaces& places) {
    std::vector<fs::path> prefixes;
    if (const auto environment_folder = environment("VIRTUAL_ENV")) prefixes.emplace_back(*environment_folder);
    if (const auto home = environment("HOME")) prefixes.push_back(fs::path(*home) / ".local");
    for (const char* prefix : {"/usr/local", "/usr", "/opt/conda", "/opt/venv"}) prefixes.emplace_back(prefix);
    std::vector<fs::path> folders;
    for (const fs::path& prefix : prefixes)
        for (const fs::path& python : children_of(prefix / "lib", "python3"))
            for (const char* packages : {"site-packages", "dist-packages"})
                for (const char* inside : places.in_wheels) folders.push_back(python / packages / inside);
    return folders;
}

}  // namespace

std::vector<fs::path> children_of(const fs::path& parent, std::string_view beginning) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error))
        if (it->path().filename().native().starts_with(beginning)) found.push_back(it->path());
    std::sort(found.rbegin(), found.rend());
    return found;
}

bool visit_library_folders(const LibraryPlaces& places, const std::function<bool(const fs::path&)>& visit) {
    std::vector<fs::path> seen;
    for (const auto& list : {program_folders, loader_folders, toolkit_folders, wheel_folders})
        for (const fs::path& folder : list(places)) {
            if (std::find(seen.begin(), seen.end(), folder) != seen.end()) continue;
            seen.push_back(folder);
            if (visit(folder)) return true;
        }
    return false;
}

}  // namespace tessera::runtime

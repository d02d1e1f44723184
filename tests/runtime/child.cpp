#include "tests/runtime/child.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/nvrtc/find.hpp"

namespace tessera::test {

namespace fs = std::filesystem;

bool passes_in_new_process(const std::string& tag, const std::string& settings) {
    const std::string program = fs::read_symlink("/proc/self/exe").native();
    const std::string command = "env " + settings + " '" + program + "' '" + tag + "' >/dev/null";
    return std::system(command.c_str()) == 0;
}

bool has_mapped(const std::string& part) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find(part) != std::string::npos) return true;
    return false;
}

bool has_nvrtc() {
    if (runtime::nvrtc_search().path) return true;
    WARN("no libnvrtc on this machine: a test case that needs one is left out");
    return false;
}

ScratchFolder::ScratchFolder() {
    path_ = (fs::temp_directory_path() / "tessera-test-XXXXXX").native();
    if (!mkdtemp(path_.data())) throw fs::filesystem_error("no scratch folder", std::error_code());
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

}  // namespace tessera::test

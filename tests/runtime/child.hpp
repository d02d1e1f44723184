#pragma once

#include <string>

namespace tessera::test {

/// Runs the hidden test case with this tag in a new process of this program, with settings such as
/// "TESSERA_CACHE_DIR=/tmp/x" in its environment. True if it passed.
bool passes_in_new_process(const std::string& tag, const std::string& settings = "");

/// True if a mapped file of this process has `part` in its path.
bool has_mapped(const std::string& part);

/// True if this machine has libnvrtc; else a warning says that the test case is left out.
bool has_nvrtc();

/// A new empty folder, removed with everything in it at the end.
class ScratchFolder {
public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace tessera::test

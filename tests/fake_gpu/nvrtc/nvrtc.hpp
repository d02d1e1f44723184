#pragma once

#include <atomic>
#include <string>

namespace tessera::fake {

/// What the NVRTC of the tests does, and what was done with it. It compiles nothing: its machine code is the magic of
/// an ELF file and the kernel's name.
struct NvrtcControl {
    int major = 13, minor = 0;
    int architectures[8] = {90, 100};
    int architecture_count = 2;
    int result = 0;                 // of a compilation; 5: invalid option, 6: the text is wrong, 7: the builtins failed
    const char* log = "";           // of a compilation
    int crowd = 1;                  // a compilation waits until so many are under way, 20 s at most
    std::atomic<bool> hold{false};  // and as long as this is set
    std::atomic<int> inside{0}, most_at_once{0}, compiles{0};
    std::string last_text, last_name;
};

}  // namespace tessera::fake

/// Found by dlsym in the library that TESSERA_NVRTC names.
extern "C" tessera::fake::NvrtcControl* fake_nvrtc_control();

#include "tests/fake_gpu/nvrtc/nvrtc.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

using tessera::fake::NvrtcControl;

namespace {

struct Program {
    std::string text, name;
    std::string cubin, ptx, log;
};

NvrtcControl& control() {
    static NvrtcControl& c = *new NvrtcControl;
    return c;
}

/// The name in `extern "C" __global__ void … name(`.
std::string entry_of(const std::string& text) {
    const std::size_t kernel = text.find("__global__");
    if (kernel == std::string::npos) return "none";
    std::size_t end = text.find('(', kernel);
    if (text.compare(end - std::min<std::size_t>(end, 17), 17, "__launch_bounds__") == 0) end = text.find('(', end + 1);
    const std::size_t begin = text.find_last_of(" )\n", end - 1) + 1;
    return text.substr(begin, end - begin);
}

void wait_inside() {
    NvrtcControl& c = control();
    const int now = ++c.inside;
    int most = c.most_at_once;
    while (most < now && !c.most_at_once.compare_exchange_weak(most, now)) {
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while ((c.most_at_once < c.crowd || c.hold) && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --c.inside;
}

int size_of(const std::string& text, std::size_t* size) {
    *size = text.size() + 1;
    return 0;
}
int content_of(const std::string& text, char* to) {
    std::memcpy(to, text.c_str(), text.size() + 1);
    return 0;
}

Program& of(void* program) { return *static_cast<Program*>(program); }

}  // namespace

NvrtcControl* fake_nvrtc_control() { return &control(); }

extern "C" {
int nvrtcVersion(int* major, int* minor) {
    *major = control().major, *minor = control().minor;
    return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
    *count = control().architecture_count;
    return 0;
}
int nvrtcGetSupportedArchs(int* architectures) {
    std::copy_n(control().architectures, control().architecture_count, architectures);
    return 0;
}
const char* nvrtcGetErrorString(int result) {
    switch (result) {
        case 5: return "NVRTC_ERROR_INVALID_OPTION";
        case 6: return "NVRTC_ERROR_COMPILATION";
        case 7: return "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
        default: return "NVRTC_ERROR";
    }
}
int nvrtcCreateProgram(void** program, const char* text, const char* name, int, const char* const*,
                       const char* const*) {
    *program = new Program{text, name, "", "", ""};
    return 0;
}
int nvrtcDestroyProgram(void** program) {
    delete static_cast<Program*>(*program);
    *program = nullptr;
    return 0;
}
int nvrtcCompileProgram(void* program, int, const char* const*) {
    static std::mutex& mutex = *new std::mutex;
    NvrtcControl& c = control();
    ++c.compiles;
    wait_inside();
    const std::lock_guard lock(mutex);
    Program& p = of(program);
    c.last_text = p.text, c.last_name = p.name;
    p.log = c.log;
    if (c.result != 0) return c.result;
    p.cubin = std::string(
                  "\x7f"
                  "ELF") +
              entry_of(p.text);
    p.cubin.append(128, '\0');
    p.ptx = "// none";
    return 0;
}
int nvrtcGetCUBINSize(void* program, std::size_t* size) { return size_of(of(program).cubin, size); }
int nvrtcGetCUBIN(void* program, char* to) { return content_of(of(program).cubin, to); }
int nvrtcGetPTXSize(void* program, std::size_t* size) { return size_of(of(program).ptx, size); }
int nvrtcGetPTX(void* program, char* to) { return content_of(of(program).ptx, to); }
int nvrtcGetProgramLogSize(void* program, std::size_t* size) { return size_of(of(program).log, size); }
int nvrtcGetProgramLog(void* program, char* to) { return content_of(of(program).log, to); }
}

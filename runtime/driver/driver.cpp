#include "runtime/driver/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include "dsl/base/error.hpp"
#include "runtime/driver/fork_guard.hpp"

namespace tessera::runtime {

namespace {

void* open_library() {
    // The loader path first; then where containers and WSL put the driver without telling the loader.
    for (const char* name : {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"})
        if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    return nullptr;
}

/// The first symbol that is missing, or null.
const char* resolve(void* library, DriverApi& api) {
#define TESSERA_ENTRY(name, symbol, signature)                               \
    api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, symbol)); \
    if (!api.name) return symbol;
    TESSERA_DRIVER_ENTRIES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
    return nullptr;
}

std::string path_of(void* library) {
    link_map* map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !map) return "libcuda.so.1";
    return map->l_name;
}

std::string name_of_result(const DriverApi& api, DriverResult result) {
    const char* name = nullptr;
    const char* text = nullptr;
    if (api.error_name(result, &name) != driver_code::success || !name) return fmt::format("error {}", result);
    api.error_text(result, &text);
    return fmt::format("{} ({})", name, text ? text : "no text");
}

Driver find_driver() {
    Driver found;
    void* library = open_library();
    if (!library) {
        found.problem = "no CUDA driver: libcuda.so.1 is not on the loader path";
        return found;
    }
    found.path = path_of(library);
    if (const char* missing = resolve(library, found.api)) {
        found.problem = fmt::format("the CUDA driver {} is too old: it lacks {}; install one for CUDA 12.0 or newer",
                                    found.path, missing);
        return found;
    }
    found.api.version(&found.version);
    if (const DriverResult r = found.api.init(0); r != driver_code::success) {
        found.problem = fmt::format("the CUDA driver {} does not start: {}", found.path, name_of_result(found.api, r));
        return found;
    }
    arm_fork_guard();
    if (found.api.device_count(&found.device_count) != driver_code::success || found.device_count == 0) {
        found.problem = "the CUDA driver sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES";
        return found;
    }
    found.usable = true;
    return found;
}

const char* cure_of(DriverResult result) {
    using namespace driver_code;
    if (result >= capture_first && result <= capture_last)
        return "; this is not possible while a stream is captured: do it before the capture begins";
    switch (result) {
        case 3:
        case 4: return "; the driver has been shut down, as at the end of a process";
        case 201:
        case 709: return "; the context is not valid (any more): make streams and tensors anew after a reset";
        case 700:
        case 715:
        case 716:
        case 717:
        case 718:
        case 719:
            return "; an earlier kernel broke this context and every later call fails too: run that kernel on "
                   "Device::host(), which checks every access and names the line";
        case 701: return "; the block needs more registers or shared memory than the device has";
        default: return "";
    }
}

}  // namespace

const Driver& driver() {
    // Never destroyed: tensors of static objects and threads that still run ask for it until the very end.
    static const Driver& found = *new Driver(find_driver());
    return found;
}

const DriverApi& driver_api() {
    const Driver& d = driver();
    if (!d.usable) throw UsageError(d.problem + "; Device::host() runs the same kernels on the CPU");
    refuse_if_forked();
    return d.api;
}

void check_driver(DriverResult result, const char* call, const std::string& doing) {
    if (result == driver_code::success) return;
    std::string memory;
    if (result == driver_code::out_of_memory) {
        std::size_t free = 0, total = 0;
        if (driver().api.memory_info(&free, &total) == driver_code::success)
            memory = fmt::format("; {} of {} MiB are free", free >> 20, total >> 20);
    }
    throw UsageError(fmt::format("cannot {}: {} gives {}{}{}", doing, call, name_of_result(driver().api, result),
                                 memory, cure_of(result)));
}

std::string version_text(int version) { return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10); }

CurrentContext::CurrentContext(void* context) {
    const DriverApi& api = driver().api;
    void* current = nullptr;
    if (api.context_current(&current) == driver_code::success && current == context) [[likely]]
        return;
    check_driver(api.context_push(context), "cuCtxPushCurrent", "make the device's context current");
    pushed_ = true;
}

void CurrentContext::pop() {
    void* popped = nullptr;
    driver().api.context_pop(&popped);
}

}  // namespace tessera::runtime

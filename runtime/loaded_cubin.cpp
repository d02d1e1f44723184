#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/fork_guard.hpp"
#include "runtime/kernel_state.hpp"
#include "runtime/nvrtc/find.hpp"

namespace tessera::runtime {

namespace {

/// Lets this thread load code though a stream is captured somewhere; that capture goes on unharmed.
class RelaxedCapture {
public:
    RelaxedCapture() { driver().api.thread_capture_mode(&mode_); }
    ~RelaxedCapture() { driver().api.thread_capture_mode(&mode_); }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

private:
    int mode_ = capture_mode_relaxed;  // exchanged: afterwards the mode to go back to
};

void check_load(DriverResult result, const char* call, const Device& device, const Compiled& compiled) {
    if (result == driver_code::success) return;
    const char* name = nullptr;
    driver().api.error_name(result, &name);
    const auto& path = nvrtc_search().path;
    throw CompileError(fmt::format(
        "{} refuses the machine code of kernel {} for {}: {} gives {}. The driver is for {}, the compiler is {}; an "
        "NVRTC that is not newer than the driver can be named in TESSERA_NVRTC",
        device.spelling(), compiled.kernel, compiled.target.arch(), call, name ? name : "an unknown error",
        version_text(driver().version), path ? path->native() : "not known"));
}

}  // namespace

LoadedCubin::LoadedCubin(const Device& device, const Compiled& compiled, std::int64_t shared_bytes) {
    const DriverApi& api = driver_api();
    const CurrentContext current(device.state().context());
    const RelaxedCapture relaxed;
    check_load(api.library_load(&library_, compiled.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
               "cuLibraryLoadData", device, compiled);
    void* function = nullptr;
    check_load(api.library_kernel(&kernel_, library_, compiled.kernel.c_str()), "cuLibraryGetKernel", device, compiled);
    // Brings the code into the context now; otherwise the first launch would, which a capture does not allow.
    check_load(api.kernel_function(&function, kernel_), "cuKernelGetFunction", device, compiled);
    if (shared_bytes > 0)
        check_driver(api.kernel_set_attribute(kernel_attribute_dynamic_shared, static_cast<int>(shared_bytes), kernel_,
                                              device.index()),
                     "cuKernelSetAttribute",
                     fmt::format("give kernel {} {} bytes of shared memory ({} has {} a block)", compiled.kernel,
                                 shared_bytes, device.name(), device.target().shared_bytes));
}

std::int64_t LoadedCubin::resident_blocks(const Device& device, unsigned threads, unsigned shared_bytes) const {
    const CurrentContext current(device.state().context());
    int each = 0;
    check_driver(driver_api().resident_blocks(&each, kernel_, static_cast<int>(threads), shared_bytes),
                 "cuOccupancyMaxActiveBlocksPerMultiprocessor", "ask how many blocks run at once");
    return std::int64_t{each} * device.target().multiprocessors;
}

LoadedCubin::~LoadedCubin() {
    if (library_ && !forked_after_use()) driver().api.library_unload(library_);
}

}  // namespace tessera::runtime

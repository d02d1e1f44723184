#pragma once

#include <string>

#include "runtime/driver/api.hpp"

namespace tessera::runtime {

/// What was found of the CUDA driver, once a process: libcuda is opened and initialised at the first question, never
/// before main.
struct Driver {
    DriverApi api;
    bool usable = false;
    std::string path;  // of libcuda; empty: none
    int version = 0;   // the newest CUDA it knows: 1000 · major + 10 · minor
    int device_count = 0;
    std::string problem;  // why it is not usable: a sentence
};

/// Looks for the driver; does not throw.
const Driver& driver();

/// The driver's entry points, for code that already works on a CUDA device.
/// Errors: UsageError where there is no usable driver, and in a process forked after its parent had used the driver.
const DriverApi& driver_api();

/// Throws UsageError when a driver call failed. `doing` completes "cannot …": "copy 4096 bytes".
void check_driver(DriverResult result, const char* call, const std::string& doing);
/// The same where nothing may be allocated as long as the call succeeds.
inline void check_driver(DriverResult result, const char* call, const char* doing) {
    if (result != driver_code::success) [[unlikely]]
        check_driver(result, call, std::string(doing));
}

/// "CUDA 13.0".
std::string version_text(int version);

/// Makes a context the thread's current one for a scope, where it is not already.
class CurrentContext {
public:
    explicit CurrentContext(void* context);
    ~CurrentContext() {
        if (pushed_) pop();
    }
    CurrentContext(const CurrentContext&) = delete;
    CurrentContext& operator=(const CurrentContext&) = delete;

private:
    static void pop();
    bool pushed_ = false;
};

}  // namespace tessera::runtime

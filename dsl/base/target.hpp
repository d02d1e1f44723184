#pragma once

#include <cstdint>

namespace tessera {

/// What lowering may know of a device.
struct Target {
    int sm = 90;  // 90: Hopper, 100: Blackwell
    int multiprocessors = 132;
    std::int64_t l2_bytes = 60'000'000;
    std::int64_t shared_bytes = 227 * 1024;  // most that one block may use

    /// "sm_90a", "sm_100a": the full name that NVRTC compiles for.
    const char* arch() const { return sm >= 100 ? "sm_100a" : "sm_90a"; }
    /// Widest access of one thread, in bytes.
    int vector_bytes() const { return sm >= 100 ? 32 : 16; }

    static Target h200() { return {}; }
    static Target b200() { return {100, 148, 126'000'000, 227 * 1024}; }
};

}  // namespace tessera

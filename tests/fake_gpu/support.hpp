#pragma once

#include <dlfcn.h>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/nvrtc/find.hpp"
#include "tessera/runtime.hpp"
#include "tests/fake_gpu/driver/driver.hpp"
#include "tests/fake_gpu/nvrtc/nvrtc.hpp"
#include "tests/runtime/programs.hpp"

namespace tessera::test {

/// The controls of the NVRTC that TESSERA_NVRTC names.
inline fake::NvrtcControl& fake_nvrtc() {
    static void* const library = dlopen(runtime::nvrtc_search().path->c_str(), RTLD_NOW);
    return *reinterpret_cast<fake::NvrtcControl* (*)()>(dlsym(library, "fake_nvrtc_control"))();
}

inline Program scale(const std::string& name) { return Program(new ir::Program(*scale_program(name.c_str()))); }

/// Runs body(i) for i < count, each in a thread of its own.
inline void in_threads(int count, const std::function<void(int)>& body) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
}

}  // namespace tessera::test

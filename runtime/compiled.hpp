#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dsl/base/target.hpp"
#include "dsl/front/program.hpp"

namespace tessera {

/// A kernel's machine code and what it was made from.
struct Compiled {
    std::string kernel;  // name of the entry point
    Target target;
    std::string cuda_text;
    std::string source;  // with TESSERA_LINEINFO: the file that holds the text, which profilers look for
    std::string key;     // of the cache entry: 32 hexadecimal digits
    std::vector<std::byte> cubin;
    std::string ptx;
    std::string log;           // of NVRTC: registers, spills, warnings
    bool from_bundle = false;  // made by the NVRTC of whoever made the bundle: a driver may refuse it
};

/// Lowers, prints and compiles a recorded kernel for a target, through the memory of the process and the disk cache.
/// Needs libnvrtc at most: no device and no driver. Errors: UsageError for what cannot be lowered; CompileError.
Compiled compile_for(const Program& program, const Target& target);

struct Counters;
/// What all engines and compile_for took to obtain kernels in this process.
Counters process_counters();

}  // namespace tessera

#pragma once

#include <span>
#include <string>

#include "runtime/compiled.hpp"
#include "runtime/nvrtc/nvrtc.hpp"

namespace tessera::runtime {

/// Throws CompileError for a text that NVRTC refused: kernel, target, compiler, options, the first diagnostics with the
/// writer's lines, and where the text was put.
[[noreturn]] void refuse_text(const Compiled& wanted, const Nvrtc& nvrtc, std::span<const std::string> options,
                              const Nvrtc::Outcome& outcome);

/// Throws CompileError unless NVRTC knows the target and the driver (version 0: none) loads what this NVRTC makes.
void check_versions(const Nvrtc& nvrtc, const Target& target, int driver_version);

/// Throws CompileError if a compilation failed by no fault of the text: NVRTC's builtins are missing, or it does not
/// know an option.
void check_compiler(const Nvrtc& nvrtc, const Target& target, int driver_version, std::span<const std::string> options,
                    const Nvrtc::Outcome& outcome);

}  // namespace tessera::runtime

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dsl/ir/program.hpp"

namespace tessera::host {

/// Values for one launch: base addresses of Program::tensors in order, then Program::scalars (floats by their bits).
struct Arguments {
    std::vector<void*> tensors;
    std::vector<std::uint64_t> scalars;
};

struct Settings {
    bool check = true;  // bounds of every access, shared-memory races, misaligned vectors
    int workers = 0;    // threads that share the blocks; 0: one for each core
};

/// A lowered program made ready to run on the CPU. Thread-safe: run may be called from several threads at once.
class Executable {
public:
    /// Errors: InternalError for no program.
    explicit Executable(std::shared_ptr<const ir::Program> lowered);
    ~Executable();
    Executable(Executable&&) noexcept;
    Executable& operator=(Executable&&) noexcept;

    /// Runs every block of the grid. A grid with an extent of 0 runs nothing.
    /// Errors: UsageError for an access out of bounds, misaligned or unordered, with the writer's line, the tensor's
    /// name, coordinates, block and thread, for what the program reports, after the last block, and when memory is out;
    /// InternalError for a program that is not a
    /// well-formed lowered one.
    void run(const Arguments& arguments, const Settings& settings = {}) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::host

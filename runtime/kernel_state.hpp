#pragma once

#include <memory>
#include <optional>

#include "dsl/front/program.hpp"
#include "dsl/host/executor.hpp"
#include "dsl/ir/program.hpp"
#include "runtime/compiled.hpp"
#include "runtime/device.hpp"
#include "runtime/launch/plan.hpp"
#include "runtime/launch/tensor_maps.hpp"

namespace tessera::runtime {

/// Machine code in the driver, for all contexts; taken out again with the last kernel that uses it.
class LoadedCubin {
public:
    /// Loads the code and makes it ready in the device's primary context, also while some stream is captured.
    /// `shared_bytes`: what its launches ask for.
    /// Errors: CompileError if the driver refuses the code.
    LoadedCubin(const Device& device, const Compiled& compiled, std::int64_t shared_bytes);
    ~LoadedCubin();
    LoadedCubin(const LoadedCubin&) = delete;
    LoadedCubin& operator=(const LoadedCubin&) = delete;

    /// A CUkernel, which cuLaunchKernel takes in any context.
    void* kernel() const { return kernel_; }
    /// How many blocks of it the device runs at once. Errors: as check_driver.
    std::int64_t resident_blocks(const Device& device, unsigned threads, unsigned shared_bytes) const;

private:
    void* library_ = nullptr;
    void* kernel_ = nullptr;
};

/// What a CompiledKernel points to; what a launch reads comes first.
struct alignas(64) KernelState {
    Device device;
    void* kernel = nullptr;                  // GPU
    unsigned threads = 0, shared_bytes = 0;  // of a block; shared memory beyond what the text reserves
    bool cooperative, dependent, reports;    // as the program says; reports: it has rules
    LaunchPlan plan;
    std::unique_ptr<TensorMaps> maps;  // null: the kernel has none
    std::int64_t most_blocks = 0;      // of a cooperative launch: what the device runs at once

    std::shared_ptr<const ir::Program> lowered;
    std::optional<Program> recorded;           // none if it was given lowered
    std::shared_ptr<const Compiled> compiled;  // GPU
    std::shared_ptr<const LoadedCubin> loaded;

    std::optional<host::Executable> executable;  // host
    host::Settings host_settings;

    KernelState(const Device& where, std::shared_ptr<const ir::Program> program)
        : device(where),
          cooperative(program->cooperative),
          dependent(program->dependent_launch),
          reports(!program->rules.empty()),
          plan(program),
          lowered(std::move(program)) {
        if (!lowered->maps.empty()) maps = std::make_unique<TensorMaps>(plan);
    }
};

}  // namespace tessera::runtime

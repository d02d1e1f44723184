#pragma once

#include <functional>
#include <memory>

#include "dsl/front/program.hpp"
#include "runtime/compiled.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/counters.hpp"
#include "runtime/kernel_id.hpp"

namespace tessera {

namespace runtime {
class Compiler;
}

/// Turns recorded kernels into ones that run on a device, and keeps them. Every way to obtain a kernel goes through
/// record, lower, emit, memory, disk, NVRTC, load, in this order, as far as needed; on the host the lowered program is
/// executed. Any thread may ask at any time: what is ready is found without waiting, what is not is made once, and
/// kernels are made in parallel.
class Engine {
public:
    /// The engine of a device; one for the whole process.
    static Engine& of(const Device& device);
    static Engine& of(const Stream& stream) { return of(stream.device()); }

    /// An engine of its own, which shares compiled code with the others of the process.
    explicit Engine(const Device& device);
    Engine(const Device& device, runtime::Compiler& compiler);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    const Device& device() const;

    /// Makes a recorded kernel ready. Each call lowers anew: keep the CompiledKernel, or ask by an id (kernel), whose
    /// hit costs a look-up. Errors: UsageError for what cannot be lowered, or while a stream is captured (prepare
    /// before); CompileError.
    CompiledKernel compile(Program program);
    /// The same from what lower::lower gives.
    CompiledKernel compile_lowered(std::shared_ptr<const ir::Program> lowered);

    /// The kernel with this id; `record` is called only if the engine has not made it yet. A hit costs one look-up: no
    /// allocation, no lock, no string. The reference is good for the engine's life. Given the stream that it will run
    /// on, a kernel that is not ready is refused whenever that stream is captured; without, where the driver tells that
    /// some stream is. Errors: as compile.
    template <class Record>
    const CompiledKernel& kernel(const KernelId& id, Record&& record) {
        if (const CompiledKernel* ready = find(id)) return *ready;
        return make(id, nullptr, std::ref(record));
    }
    template <class Record>
    const CompiledKernel& kernel(const Stream& stream, const KernelId& id, Record&& record) {
        if (const CompiledKernel* ready = find(id)) return *ready;
        return make(id, &stream, std::ref(record));
    }
    /// The same, before it is needed: at start-up, or before a capture begins.
    template <class Record>
    const CompiledKernel& prepare(const KernelId& id, Record&& record) {
        return kernel(id, record);
    }

    Counters counters() const;

private:
    struct Impl;
    const CompiledKernel* find(const KernelId& id);
    const CompiledKernel& make(const KernelId& id, const Stream* stream, const std::function<Program()>& record);

    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#include "runtime/compiled_kernel.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/fork_guard.hpp"
#include "runtime/kernel_state.hpp"
#include "runtime/prepare.hpp"

namespace tessera {

namespace {

using runtime::KernelState;
using runtime::most_arguments;

[[noreturn]] void wrong_stream(const KernelState& k, const Stream& stream) {
    throw UsageError(
        fmt::format("kernel {}: it is compiled for {} and the stream is of {}; take the kernel from "
                    "Engine::of(stream)",
                    k.lowered->name, k.device.spelling(), stream.device().spelling()));
}

[[noreturn]] void not_dependent(const KernelState& k) {
    throw UsageError(
        k.lowered->place,
        fmt::format("kernel {}: a dependent launch starts before the kernel ahead is done, and this one does "
                    "not wait for it; call k.dependent_launch() in its recording",
                    k.lowered->name));
}

[[noreturn]] void refused_launch(const KernelState& k, runtime::DriverResult result, const char* call,
                                 std::int64_t blocks) {
    runtime::check_driver(result, call,
                          fmt::format("launch kernel {} with {} blocks of {} threads and {} bytes of shared memory",
                                      k.lowered->name, blocks, k.threads, k.shared_bytes));
    throw InternalError("a launch failed without a reason");
}

[[noreturn]] void too_many_blocks(const KernelState& k, std::int64_t blocks) {
    throw UsageError(
        k.lowered->place,
        fmt::format("kernel {}: its {} blocks wait for each other (k.grid_sync), but {} runs only {} of them at once, "
                    "with {} threads and {} bytes of shared memory each; take fewer, larger blocks",
                    k.lowered->name, blocks, k.device.name(), k.most_blocks, k.threads, k.lowered->shared_bytes));
}

/// The record of a kernel that reports; else nothing.
void prepare_report(const KernelState& k, const Stream& stream) {
    if (!k.kernel || k.lowered->rules.empty()) return;
    runtime::refuse_if_forked();
    const runtime::CurrentContext current(stream.context());
    runtime::DeviceState& state = stream.device().state();
    state.reports().prepare(k.lowered, stream.handle(), state.memory_pool());
}

/// Room for the tensor maps of a launch.
struct MapWords {
    MapWords() {}  // leaves them as they are
    runtime::TensorMapWords maps[ir::TensorMap::most];
};

void launch_on_gpu(const KernelState& k, const Stream& stream, std::span<const TensorView> tensors,
                   std::uint64_t* values, std::int64_t blocks, bool dependent) {
    runtime::refuse_if_forked();
    const bool cooperative = k.lowered->cooperative;
    if (cooperative && blocks > k.most_blocks) [[unlikely]]
        too_many_blocks(k, blocks);
    void* arguments[most_arguments + ir::TensorMap::most + 1];
    std::size_t n = 0;
    for (const TensorView& view : tensors) arguments[n++] = const_cast<void**>(&view.data);
    for (std::size_t i = 0; i < k.plan.scalars().size(); ++i) arguments[n++] = &values[i];
    MapWords words;  // written only where the kernel has maps
    if (k.maps) {
        const std::span<const std::uint64_t> numbers(values, k.plan.scalars().size());
        k.maps->encode(stream.context(), tensors, numbers, words.maps);
        for (std::size_t i = 0; i < k.maps->count(); ++i) arguments[n++] = &words.maps[i];
    }
    const runtime::CurrentContext current(stream.context());
    runtime::DriverPointer record = 0;
    if (!k.lowered->rules.empty()) {
        runtime::DeviceState& state = stream.device().state();
        record = state.reports().record_for(k.lowered, stream.handle(), state.memory_pool());
        arguments[n] = &record;
    }
    const runtime::DriverApi& api = runtime::driver().api;
    const auto count = static_cast<unsigned>(blocks);
    runtime::DriverResult result = runtime::driver_code::success;
    if (!dependent && !cooperative) {
        result =
            api.launch(k.kernel, count, 1, 1, k.threads, 1, 1, k.shared_bytes, stream.handle(), arguments, nullptr);
    } else {
        runtime::LaunchAttribute attribute;
        attribute.id = cooperative ? runtime::launch_cooperative : runtime::launch_early;
        runtime::LaunchConfiguration configuration;
        configuration.blocks_x = count, configuration.threads_x = k.threads;
        configuration.shared_bytes = k.shared_bytes, configuration.stream = stream.handle();
        configuration.attributes = &attribute, configuration.attribute_count = 1;
        result = api.launch_with(&configuration, k.kernel, arguments, nullptr);
    }
    if (result != runtime::driver_code::success) [[unlikely]]
        refused_launch(k, result, dependent || cooperative ? "cuLaunchKernelEx" : "cuLaunchKernel", blocks);
}

void launch_on_host(const KernelState& k, std::span<const TensorView> tensors, const std::uint64_t* values) {
    if (k.maps) k.maps->check(std::span<const std::uint64_t>(values, k.plan.scalars().size()));
    host::Arguments arguments;
    for (const TensorView& view : tensors) arguments.tensors.push_back(view.data);
    arguments.scalars.assign(values, values + k.plan.scalars().size());
    k.executable->run(arguments, k.host_settings);
}

}  // namespace

void CompiledKernel::launch(const Stream& stream, std::span<const TensorView> tensors, std::span<const Scalar> scalars,
                            const LaunchOptions& options) const {
    const KernelState& k = *state_;
    if (!k.device.shares_memory(stream.device())) [[unlikely]]
        wrong_stream(k, stream);
    if (options.dependent && !k.lowered->dependent_launch) [[unlikely]]
        not_dependent(k);
    std::uint64_t values[most_arguments];
    k.plan.bind(k.device, tensors, scalars, values);
    const std::int64_t blocks = k.plan.blocks(std::span<const std::uint64_t>(values, k.plan.scalars().size()));
    if (runtime::only_preparing()) return prepare_report(k, stream);
    if (blocks == 0) return;
    if (k.kernel)
        launch_on_gpu(k, stream, tensors, values, blocks, options.dependent);
    else
        launch_on_host(k, tensors, values);
}

const std::string& CompiledKernel::name() const { return state_->lowered->name; }
const Device& CompiledKernel::device() const { return state_->device; }

const ir::Program& CompiledKernel::program() const {
    return state_->recorded ? state_->recorded->ir() : *state_->lowered;
}

const ir::Program& CompiledKernel::lowered() const { return *state_->lowered; }

std::string CompiledKernel::cuda_text() const {
    return state_->compiled ? state_->compiled->cuda_text : emit::cuda_text(*state_->lowered, state_->device.target());
}

namespace {
const std::string& nothing = *new std::string;
}

std::span<const std::byte> CompiledKernel::cubin() const {
    return state_->compiled ? std::span<const std::byte>(state_->compiled->cubin) : std::span<const std::byte>();
}
const std::string& CompiledKernel::ptx() const { return state_->compiled ? state_->compiled->ptx : nothing; }
const std::string& CompiledKernel::log() const { return state_->compiled ? state_->compiled->log : nothing; }

}  // namespace tessera

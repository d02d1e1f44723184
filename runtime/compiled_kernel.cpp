#include "runtime/compiled_kernel.hpp"

#include <fmt/format.h>
#include <memory>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/fork_guard.hpp"
#include "runtime/kernel_state.hpp"
#include "runtime/launch/errors.hpp"
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
    if (!k.kernel || !k.reports) return;
    runtime::refuse_if_forked();
    const runtime::CurrentContext current(stream.context());
    runtime::DeviceState& state = stream.device().state();
    state.reports().prepare(k.lowered, stream.handle(), state.memory_pool());
}

/// What the driver is told of a launch: the addresses of its arguments, in the order of the kernel's parameters.
struct Arguments {
    Arguments() {}  // leaves them as they are
    void* addresses[most_arguments + ir::TensorMap::most + 1];
    std::size_t count = 0;
    void add(const void* at) { addresses[count++] = const_cast<void*>(at); }
};

runtime::DriverResult launch_with_attribute(const KernelState& k, const Stream& stream, unsigned blocks,
                                            Arguments& arguments) {
    runtime::LaunchAttribute attribute;
    attribute.id = k.cooperative ? runtime::launch_cooperative : runtime::launch_early;
    runtime::LaunchConfiguration configuration;
    configuration.blocks_x = blocks, configuration.threads_x = k.threads;
    configuration.shared_bytes = k.shared_bytes, configuration.stream = stream.handle();
    configuration.attributes = &attribute, configuration.attribute_count = 1;
    return runtime::driver().api.launch_with(&configuration, k.kernel, arguments.addresses, nullptr);
}

void start(const KernelState& k, const Stream& stream, std::int64_t blocks, bool dependent, Arguments& arguments) {
    const runtime::CurrentContext current(stream.context());
    runtime::DriverPointer record = 0;
    if (k.reports) {
        runtime::DeviceState& state = stream.device().state();
        record = state.reports().record_for(k.lowered, stream.handle(), state.memory_pool());
        arguments.add(&record);
    }
    const bool plain = !dependent && !k.cooperative;
    const auto count = static_cast<unsigned>(blocks);
    const runtime::DriverResult result =
        plain ? runtime::driver().api.launch(k.kernel, count, 1, 1, k.threads, 1, 1, k.shared_bytes, stream.handle(),
                                             arguments.addresses, nullptr)
              : launch_with_attribute(k, stream, count, arguments);
    if (result != runtime::driver_code::success) [[unlikely]]
        refused_launch(k, result, plain ? "cuLaunchKernel" : "cuLaunchKernelEx", blocks);
}

/// A kernel that copies by tensor maps: they come behind the numbers.
[[gnu::noinline]] void start_with_maps(const KernelState& k, const Stream& stream, std::span<const TensorRef> tensors,
                                       std::span<const std::uint64_t> values, std::int64_t blocks, bool dependent,
                                       Arguments& arguments) {
    runtime::TensorMapWords maps[ir::TensorMap::most];
    k.maps->encode(stream.context(), tensors, values, maps);
    for (std::size_t i = 0; i < k.maps->count(); ++i) arguments.add(&maps[i]);
    start(k, stream, blocks, dependent, arguments);
}

void launch_on_gpu(const KernelState& k, const Stream& stream, std::span<const TensorRef> tensors,
                   std::span<const std::uint64_t> values, std::int64_t blocks, bool dependent) {
    runtime::refuse_if_forked();
    if (k.cooperative && blocks > k.most_blocks) [[unlikely]]
        too_many_blocks(k, blocks);
    Arguments arguments;
    for (const TensorView& view : tensors) arguments.add(&view.data);
    for (const std::uint64_t& value : values) arguments.add(&value);
    if (k.maps) return start_with_maps(k, stream, tensors, values, blocks, dependent, arguments);
    start(k, stream, blocks, dependent, arguments);
}

[[gnu::noinline]] void launch_on_host(const KernelState& k, std::span<const TensorRef> tensors,
                                      std::span<const std::uint64_t> values) {
    if (k.maps) k.maps->check(values);
    host::Arguments arguments;
    for (const TensorView& view : tensors) arguments.tensors.push_back(view.data);
    arguments.scalars.assign(values.begin(), values.end());
    k.executable->run(arguments, k.host_settings);
}

}  // namespace

void CompiledKernel::launch(const Stream& stream, std::span<const TensorRef> tensors, std::span<const Scalar> scalars,
                            const LaunchOptions& options) const {
    const KernelState& k = *state_;
    if (!k.device.shares_memory(stream.device())) [[unlikely]]
        wrong_stream(k, stream);
    if (options.dependent && !k.dependent) [[unlikely]]
        not_dependent(k);
    std::uint64_t numbers[most_arguments];
    k.plan.bind(k.device, tensors, scalars, numbers);
    const std::span<const std::uint64_t> values(numbers, k.plan.scalar_count());
    const std::int64_t blocks = k.plan.blocks(values);
    if (runtime::only_preparing()) [[unlikely]]
        return prepare_report(k, stream);
    if (blocks == 0) return;
    if (k.kernel)
        launch_on_gpu(k, stream, tensors, values, blocks, options.dependent);
    else
        launch_on_host(k, tensors, values);
}

void CompiledKernel::launch(const Stream& stream, std::span<const TensorView> tensors, std::span<const Scalar> scalars,
                            const LaunchOptions& options) const {
    if (tensors.size() > most_arguments) runtime::launch_error::tensor_count(state_->plan, tensors.size());
    alignas(TensorRef) std::byte room[most_arguments * sizeof(TensorRef)];
    auto* const refs = reinterpret_cast<TensorRef*>(room);
    std::uninitialized_copy(tensors.begin(), tensors.end(), refs);
    launch(stream, std::span<const TensorRef>(refs, tensors.size()), scalars, options);
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

#include "runtime/engine.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "runtime/compiler.hpp"
#include "runtime/device_state.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/id_table.hpp"
#include "runtime/kernel_state.hpp"
#include "runtime/nvrtc/find.hpp"
#include "runtime/once_table.hpp"
#include "runtime/settings.hpp"

namespace tessera {

namespace {

using runtime::IdEntry;
using runtime::KernelState;
using runtime::Stopwatch;

/// An id that owns its name, for the table of kernels in the making.
struct OwnedId {
    std::string name;
    KernelId id;
    explicit OwnedId(const KernelId& asked) : name(asked.name), id(asked) {}
    friend bool operator==(const OwnedId& a, const OwnedId& b) {
        KernelId x = a.id, y = b.id;
        x.name = a.name.c_str(), y.name = b.name.c_str();
        return runtime::same_id(x, y);
    }
};
struct OwnedIdHash {
    std::size_t operator()(const OwnedId& id) const { return id.id.hash; }
};
struct KeyHash {
    std::size_t operator()(const std::string& key) const { return std::hash<std::string>()(key); }
};

}  // namespace

struct Engine::Impl {
    runtime::IdTable kernels;
    Device device;
    runtime::Compiler* compiler;               // null on the host until somebody asks
    alignas(64) runtime::CounterSet counters;  // written by every look-up
    runtime::OnceTable<OwnedId, const CompiledKernel*, OwnedIdHash> making;
    runtime::OnceTable<std::string, std::shared_ptr<const runtime::LoadedCubin>, KeyHash> loaded;

    Impl(const Device& where, runtime::Compiler* given) : device(where), compiler(given) {}

    void refuse_capture(const std::string& name, const Stream* stream);
    CompiledKernel build(std::optional<Program> recorded, std::shared_ptr<const ir::Program> lowered);
    void load(KernelState& state);
};

void Engine::Impl::refuse_capture(const std::string& name, const Stream* stream) {
    if (device.is_host()) return;
    runtime::driver_api();
    bool captured = stream && stream->is_capturing();
    if (!captured) {
        // The legacy stream answers for every capture that it would have to wait for.
        const runtime::CurrentContext current(device.state().context());
        captured = runtime::is_capturing(nullptr);
    }
    if (captured)
        throw UsageError(
            fmt::format("kernel {} is not ready, and a stream of {} is captured: nothing is compiled or loaded "
                        "during a capture; prepare() the kernel (or run it once) before the capture begins",
                        name, device.spelling()));
}

void Engine::Impl::load(KernelState& state) {
    const int driver_version = runtime::driver().version;
    state.compiled = runtime::compile_lowered(*compiler, *state.lowered, device.target(), counters, driver_version);
    const auto load_it = [&] {
        // Programs of one text may differ in what their launches check, so they share the code and nothing else.
        const std::string key = fmt::format("{} {}", state.compiled->key, state.shared_bytes);
        return loaded.get(key, [&] {
            const Stopwatch watch(counters.load_ns);
            return std::make_shared<const runtime::LoadedCubin>(device, *state.compiled, state.shared_bytes);
        });
    };
    try {
        state.loaded = load_it();
    } catch (const CompileError&) {
        if (!state.compiled->from_bundle || !runtime::nvrtc_search().path) throw;
        state.compiled = compiler->replace(*state.compiled, counters, driver_version);
        state.loaded = load_it();
    }
    state.kernel = state.loaded->kernel();
    if (state.lowered->cooperative)
        state.most_blocks = state.loaded->resident_blocks(device, state.threads, state.shared_bytes);
}

CompiledKernel Engine::Impl::build(std::optional<Program> recorded, std::shared_ptr<const ir::Program> lowered) {
    if (!lowered) lowered = runtime::lowered_for(recorded->ir(), device.target(), counters);
    auto state = std::make_shared<KernelState>(device, lowered);
    state->recorded = std::move(recorded);
    state->threads = static_cast<unsigned>(lowered->threads);
    state->shared_bytes = static_cast<unsigned>(emit::dynamic_shared_bytes(*lowered));
    if (device.is_host()) {
        state->executable.emplace(lowered);
        state->host_settings.check = runtime::setting_on("TESSERA_HOST_CHECK");
        state->host_settings.workers = runtime::setting_count("TESSERA_HOST_WORKERS");
    } else {
        load(*state);
    }
    return CompiledKernel(std::move(state));
}

Engine& Engine::of(const Device& device) { return device.state().engine(); }

Engine::Engine(const Device& device)
    : impl_(std::make_unique<Impl>(device, device.is_host() ? nullptr : &runtime::Compiler::shared())) {}

Engine::Engine(const Device& device, runtime::Compiler& compiler) : impl_(std::make_unique<Impl>(device, &compiler)) {}

Engine::~Engine() = default;

const Device& Engine::device() const { return impl_->device; }

CompiledKernel Engine::compile(Program program) {
    impl_->refuse_capture(program.ir().name, nullptr);
    return impl_->build(std::move(program), nullptr);
}

CompiledKernel Engine::compile_lowered(std::shared_ptr<const ir::Program> lowered) {
    impl_->refuse_capture(lowered->name, nullptr);
    return impl_->build(std::nullopt, std::move(lowered));
}

const CompiledKernel* Engine::find(const KernelId& id) {
    const CompiledKernel* ready = impl_->kernels.find(id);
    if (ready) runtime::count_cheaply(impl_->counters.memory_hits);
    return ready;
}

const CompiledKernel& Engine::make(const KernelId& id, const Stream* stream, const std::function<Program()>& record) {
    impl_->refuse_capture(id.name, stream);
    return *impl_->making.get(OwnedId(id), [&] {
        std::optional<Program> recorded;
        {
            const Stopwatch watch(impl_->counters.record_ns);
            recorded.emplace(record());
        }
        return &impl_->kernels.insert(id, impl_->build(std::move(recorded), nullptr));
    });
}

Counters Engine::counters() const { return impl_->counters.values(); }

}  // namespace tessera

#include "bench/launch_cost.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <vector>

#include "dsl/base/error.hpp"
#include "dsl/emit/cuda.hpp"
#include "kernels/quant.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/engine.hpp"
#include "runtime/launch/plan.hpp"

namespace tessera::bench {

namespace {

constexpr std::int64_t tokens = 8, hidden = 7168;
constexpr int burst = 40, rounds = 301;

/// The driver's launch of a kernel with everything worked out before.
class BareLaunch {
public:
    BareLaunch(const Stream& stream, const CompiledKernel& kernel, std::vector<TensorView> tensors)
        : stream_(stream), tensors_(std::move(tensors)), api_(runtime::driver_api()) {
        const ir::Program& program = kernel.lowered();
        const runtime::LaunchPlan plan(std::shared_ptr<const ir::Program>(std::shared_ptr<void>(), &program));
        const std::vector<TensorRef> refs(tensors_.begin(), tensors_.end());
        plan.bind(stream.device(), refs, {}, values_);
        blocks_ = static_cast<unsigned>(plan.blocks(std::span<const std::uint64_t>(values_, plan.scalars().size())));
        threads_ = static_cast<unsigned>(program.threads);
        shared_bytes_ = static_cast<unsigned>(emit::dynamic_shared_bytes(program));
        for (TensorView& view : tensors_) arguments_.push_back(&view.data);
        for (std::size_t i = 0; i < plan.scalars().size(); ++i) arguments_.push_back(&values_[i]);
        const runtime::CurrentContext current(stream.context());
        const auto check = [](runtime::DriverResult result) { runtime::check_driver(result, "the driver", "measure"); };
        check(api_.library_load(&library_, kernel.cubin().data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
        check(api_.library_kernel(&kernel_, library_, kernel.name().c_str()));
        check(api_.kernel_function(&function_, kernel_));
    }
    ~BareLaunch() { api_.library_unload(library_); }
    BareLaunch(const BareLaunch&) = delete;
    BareLaunch& operator=(const BareLaunch&) = delete;

    void operator()() { launch(function_); }
    /// The same by the handle that is good for all contexts, as the library launches.
    void in_any_context() { launch(kernel_); }

private:
    void launch(void* what) {
        api_.launch(what, blocks_, 1, 1, threads_, 1, 1, shared_bytes_, stream_.handle(), arguments_.data(), nullptr);
    }

    const Stream& stream_;
    std::vector<TensorView> tensors_;
    const runtime::DriverApi& api_;
    std::uint64_t values_[runtime::most_arguments] = {};
    std::vector<void*> arguments_;
    unsigned blocks_ = 0, threads_ = 0, shared_bytes_ = 0;
    void *library_ = nullptr, *kernel_ = nullptr, *function_ = nullptr;
};

class Samples {
public:
    /// Microseconds of one call, over a burst.
    template <class Call>
    void add(const Stream& stream, Call&& call) {
        stream.synchronize();
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < burst; ++i) call();
        const auto spent = std::chrono::steady_clock::now() - begin;
        stream.synchronize();
        values_.push_back(std::chrono::duration<double, std::micro>(spent).count() / burst);
    }
    double median() {
        std::sort(values_.begin(), values_.end());
        return values_[values_.size() / 2];
    }

private:
    std::vector<double> values_;
};

}  // namespace

LaunchCost launch_cost(const Stream& stream) {
    if (stream.device().is_host())
        throw UsageError("the cost of a launch is compared with the driver's own call, and there is no GPU; name one");
    const Tensor x = Tensor::zeros(stream, bf16, {tokens, hidden});
    const quant::Quantized out = quant::per_token_cast(stream, x);
    BareLaunch bare_launch(stream, Engine::of(stream).compile(quant::per_token_cast_program(bf16, hidden)),
                           {x, out.data, out.sf});
    std::vector<quant::Quantized> kept;
    kept.reserve(burst);
    const auto into_given = [&] { quant::per_token_cast(stream, x, out.data, out.sf); };
    Samples bare, any, asking, given, elsewhere, allocating, dropping;
    for (int round = 0; round < rounds; ++round) {
        elsewhere.add(stream, into_given);
        const runtime::CurrentContext current(stream.context());  // as in a program that works on this GPU
        bare.add(stream, bare_launch);
        any.add(stream, [&] { bare_launch.in_any_context(); });
        asking.add(stream, [&] {
            const runtime::CurrentContext again(stream.context());
            bare_launch.in_any_context();
        });
        given.add(stream, into_given);
        allocating.add(stream, [&] { kept.push_back(quant::per_token_cast(stream, x)); });
        kept.clear();
        dropping.add(stream, [&] { quant::per_token_cast(stream, x); });
    }
    return {bare.median(),     given.median(), elsewhere.median(), allocating.median(),
            dropping.median(), any.median(),   asking.median()};
}

std::string launch_cost_text(const LaunchCost& cost) {
    const auto row = [&](const char* what, double us, const char* goal) {
        return fmt::format("{:<58} {:>6.2f} us  {:>+5.2f}  {}\n", what, us, us - cost.bare, goal);
    };
    return row("the driver's launch of per_token_cast's kernel", cost.bare, "") +
           row("the same by a handle for all contexts", cost.any, "") +
           row("the same, asking for the current context before", cost.asking, "") +
           row("per_token_cast into given outputs", cost.given, "goal +0.50") +
           row("the same on a thread without a current context", cost.elsewhere, "") +
           row("per_token_cast with outputs of its own", cost.allocating, "goal +1.50") +
           row("the same, dropping them at once", cost.dropping, "");
}

}  // namespace tessera::bench

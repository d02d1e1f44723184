#include "dsl/host/executor.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dsl/base/error.hpp"
#include "dsl/host/assemble.hpp"
#include "dsl/host/launch.hpp"
#include "dsl/host/machine.hpp"

namespace tessera::host {

namespace {

/// Hands out blocks in ascending order and keeps the error of the lowest block that failed, whatever the workers'
/// timing: every lower block has been handed out before and runs to its end.
class Blocks {
public:
    explicit Blocks(std::int64_t count) : end_(count) {}

    /// Calls run(block) until there is none left.
    template <class Run>
    void work(Run&& run) {
        std::int64_t block = -1;
        try {
            while ((block = next_.fetch_add(1)) < end_) run(block);
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (block >= end_) return;
            end_ = block;
            error_ = std::current_exception();
        }
    }

    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    std::atomic<std::int64_t> next_{0};
    std::atomic<std::int64_t> end_;  // the lowest block that failed, or their number
    std::mutex mutex_;
    std::exception_ptr error_;
};

/// Calls work() on so many threads, this one included.
template <class Work>
void on_workers(std::int64_t workers, const Work& work) {
    std::vector<std::jthread> helpers;
    helpers.reserve(static_cast<std::size_t>(workers));
    try {
        for (std::int64_t w = 1; w < workers; ++w) helpers.emplace_back([&] { work(); });
    } catch (const std::exception&) {
        // The system gives no more threads: those that there are share the blocks.
    }
    work();
}

void run_apart(const Launch& launch, const Code& code, std::int64_t workers, Record& record) {
    Blocks blocks(launch.blocks);
    on_workers(workers, [&] {
        std::optional<Machine> machine;
        blocks.work([&](std::int64_t block) {
            if (!machine) machine.emplace(launch, code, record);
            machine->run_block(block);
        });
    });
    blocks.rethrow();
}

/// Every block in a machine of its own, all up to the next grid sync, then all further.
void run_together(const Launch& launch, const Code& code, std::int64_t workers, Record& record) {
    std::vector<std::unique_ptr<Machine>> machines(static_cast<std::size_t>(launch.blocks));
    std::vector<char> done(machines.size());
    while (!done.front()) {
        Blocks blocks(launch.blocks);
        on_workers(workers, [&] {
            blocks.work([&](std::int64_t block) {
                auto& machine = machines[static_cast<std::size_t>(block)];
                if (!machine) {
                    machine = std::make_unique<Machine>(launch, code, record);
                    machine->begin(block);
                }
                done[static_cast<std::size_t>(block)] = machine->go_on();
            });
        });
        blocks.rethrow();
    }
    require_internal(std::find(done.begin(), done.end(), 0) == done.end(), "a block waits for others that are done");
}

void run_blocks(const Launch& launch, const Code& code, int wanted) {
    if (wanted <= 0) wanted = static_cast<int>(std::thread::hardware_concurrency());
    const auto workers = std::clamp<std::int64_t>(wanted, 1, launch.blocks);
    Record record;
    (launch.program.cooperative ? run_together : run_apart)(launch, code, workers, record);
    if (record.first().found()) throw UsageError(ir::sentence_of(launch.program, record.first()));
}

[[noreturn]] void out_of_memory(const ir::Program& program) {
    throw UsageError(
        program.place,
        fmt::format("kernel '{}': the host executor gets no memory for its workers, each of which needs {} "
                    "bytes of shared memory beside the registers of {} threads; run it with fewer workers "
                    "or smaller tiles",
                    program.name, program.shared_bytes, program.threads));
}

}  // namespace

struct Executable::Impl {
    std::shared_ptr<const ir::Program> program;
    struct Assembled {
        std::once_flag once;
        Code code;
    };
    mutable Assembled plain, checked;

    const Code& code(bool check) const {
        Assembled& a = check ? checked : plain;
        std::call_once(a.once, [&] { a.code = assemble(*program, check); });
        return a.code;
    }
};

Executable::Executable(std::shared_ptr<const ir::Program> lowered) : impl_(std::make_unique<Impl>()) {
    require_internal(lowered != nullptr, "an executable needs a program");
    impl_->program = std::move(lowered);
}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

void Executable::run(const Arguments& arguments, const Settings& settings) const {
    try {
        const Launch launch(*impl_->program, arguments);
        if (launch.blocks > 0) run_blocks(launch, impl_->code(settings.check), settings.workers);
    } catch (const std::bad_alloc&) {
        out_of_memory(*impl_->program);
    } catch (const std::length_error&) {
        out_of_memory(*impl_->program);
    } catch (const std::out_of_range&) {
        throw InternalError("kernel '" + impl_->program->name +
                            "': its lowered program names a tensor, tile, array, local or loop that its tables lack");
    }
}

}  // namespace tessera::host

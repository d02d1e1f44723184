#include "runtime/driver/fork_guard.hpp"

#include <atomic>
#include <pthread.h>

#include "dsl/base/error.hpp"

namespace tessera::runtime {

namespace {
std::atomic<bool> armed{false};
std::atomic<bool> forked{false};

void in_the_child() { forked.store(true, std::memory_order_relaxed); }
}  // namespace

void arm_fork_guard() {
    if (!armed.exchange(true)) pthread_atfork(nullptr, nullptr, in_the_child);
}

bool forked_after_use() { return forked.load(std::memory_order_relaxed); }

void refuse_if_forked() {
    if (forked_after_use()) [[unlikely]]
        throw UsageError(
            "this process was forked after its parent had used the GPU, and CUDA does not survive a fork: start the "
            "child with exec (in Python: multiprocessing's \"spawn\"), or fork before the first use; compiling and "
            "Device::host() still work");
}

}  // namespace tessera::runtime

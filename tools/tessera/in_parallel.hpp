#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace tessera::tool {

/// Calls work(0) … work(count − 1) from `threads` threads, each taking the next when it is done with one. `work` must
/// not throw.
template <class Work>
void in_parallel(std::size_t count, std::size_t threads, const Work& work) {
    std::atomic<std::size_t> next{0};
    const auto run = [&] {
        for (std::size_t i = next++; i < count; i = next++) work(i);
    };
    std::vector<std::thread> others;
    while (others.size() + 1 < threads && others.size() + 1 < count) others.emplace_back(run);
    run();
    for (std::thread& thread : others) thread.join();
}

}  // namespace tessera::tool

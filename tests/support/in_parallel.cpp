#include "tests/support/in_parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

namespace tessera::test {

std::vector<std::string> in_parallel(std::size_t count, const std::function<std::string(std::size_t)>& check) {
    std::vector<std::string> said(count);
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            try {
                said[i] = check(i);
            } catch (const std::exception& error) {
                said[i] = std::string("threw: ") + error.what();
            }
        }
    };
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min({count, cores, std::size_t{12}}); ++i) threads.emplace_back(work);
    threads.clear();  // waits for them
    return said;
}

}  // namespace tessera::test

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "tests/fake_gpu/driver/driver.hpp"

// What the fake driver remembers. Nothing here takes memory while a launch is under way: the tests count allocations.

namespace tessera::fake {

struct Context {
    int device;
    bool primary;
    std::atomic<bool> alive{true};
    std::atomic<int> number{1};  // a primary context that is made anew keeps its address
};

struct Stream {
    Context* context;
    int number;     // of the context
    bool blocking;  // ordered with the legacy stream
    std::uint64_t capture = 0;
    bool broken = false;
};

struct Event {
    Context* context;
    int number;  // of the context
    bool recorded = false;
};

struct Kernel {
    char name[64];
};

/// Ahead of every piece of device memory.
struct alignas(256) Header {
    std::uint64_t magic;
    std::uint64_t capture;
    Context* context;
    int number;  // of the context
    void* memory;
};

inline constexpr int most_depth = 16;
struct ContextStack {
    Context* contexts[most_depth] = {};
    int depth = 0;
    Context* top() const { return depth > 0 ? contexts[depth - 1] : nullptr; }
};

inline constexpr std::size_t most_calls = 1 << 16;
struct State {
    std::mutex mutex;
    Call calls[most_calls];
    std::atomic<std::size_t> count{0};
    std::atomic<long> context_questions{0};
    Launch launch{};
    TensorMap map{};
    std::uint64_t maps = 0;  // encoded
    std::atomic<int> watched{-1};
    std::uint64_t words[16] = {};
    std::atomic<void (*)()> action{nullptr};
    Context* primary[device_count] = {};
    std::atomic<long> live{0}, events{0};
    std::atomic<int> captures{0};  // under way
    std::uint64_t last_capture = 0;
    Stream* captured[8] = {};
    const char* fail_symbol = nullptr;
    int fail_result = 0, fail_times = 0;
    int process = 0;
    std::atomic<bool> shut_down{false};
};

State& state();
ContextStack& contexts();
int& capture_mode();

}  // namespace tessera::fake

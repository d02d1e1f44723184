#pragma once

#include <cstdint>
#include <string>

// A CUDA driver without a GPU, as libcuda.so.1 of the tests. Device memory is host memory, copies are done at once, and
// a launch is only noted. It holds its caller to the driver's rules: a call needs a current context, a stream is used
// in its own, nothing is loaded or waited for during a capture, and a forked child that calls anything is aborted.

namespace tessera::fake {

inline constexpr int device_count = 2;

/// One call that names a stream, or an event worth a test.
struct Call {
    const char* symbol;
    void* stream;
    void* context;
    int device;  // of the context
};

/// A launch as the driver got it.
struct Launch {
    void* stream;
    unsigned blocks, threads, shared_bytes;
    int attributes;       // that came with it
    int first_attribute;  // its id; 0: none
};

/// A tensor map as the driver was asked to encode it. The words of it begin with the address and the number of maps
/// that were encoded so far.
struct TensorMap {
    int element;
    unsigned rank;
    std::uint64_t address, extents[5], strides[4];
    std::uint32_t box[5], steps[5];
    int interleave, swizzle, promotion, fill;
};
TensorMap last_map();

/// Launches keep 16 words from where their argument of this index lies; −1: none.
void watch_argument(int index);
const std::uint64_t* watched_words();

void forget_calls();
std::size_t call_count();
/// How often cuCtxGetCurrent was asked, which is no call that is noted.
long context_questions();
Call call(std::size_t index);
/// How often `symbol` was called since forget_calls; calls without a stream count too.
int count_of(const char* symbol);
/// Kernels launched, by either call.
inline int launches() { return count_of("cuLaunchKernel") + count_of("cuLaunchKernelEx"); }
Launch last_launch();

/// The next `times` calls of `symbol` give `result` instead of doing anything.
void fail_next(const char* symbol, int result, int times = 1);

/// Device memory that was taken and not given back.
long live_allocations();
/// Events that were made and not destroyed.
long live_events();
/// A reset of the primary context, as by cudaDeviceReset.
void reset_primary(int device);
bool begin_capture(void* stream);
/// True if the capture was not broken.
bool end_capture(void* stream);
/// What launches do beside being noted; null: nothing.
void on_launch(void (*action)());

}  // namespace tessera::fake

#include "tests/fake_gpu/driver/driver.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>
#include <vector>

#include "runtime/driver/api.hpp"
#include "tests/fake_gpu/driver/state.hpp"

namespace tessera::fake {

State& state() {
    static State& s = *new State;
    return s;
}
ContextStack& contexts() {
    thread_local ContextStack stack;
    return stack;
}
int& capture_mode() {
    thread_local int mode = 0;
    return mode;
}

namespace {

constexpr int success = 0, invalid_value = 1, deinitialized = 4, invalid_image = 200, invalid_context = 201,
              invalid_handle = 400, not_found = 500, destroyed = 709, unsupported = 900, implicit = 906;

[[noreturn]] void die(const char* symbol, const char* why) {
    std::fprintf(stderr, "fake driver: %s %s\n", symbol, why);
    std::abort();
}

/// Notes a call; a result other than success is what the call must give.
int enter(const char* symbol, void* stream, Context* context) {
    State& s = state();
    if (s.process != 0 && s.process != getpid()) die(symbol, "in a forked child");
    if (s.shut_down) return deinitialized;
    const std::lock_guard lock(s.mutex);
    const std::size_t at = s.count;
    if (at < most_calls) {
        s.calls[at] = {symbol, stream, context, context ? context->device : -1};
        s.count = at + 1;
    }
    if (s.fail_symbol && std::strcmp(s.fail_symbol, symbol) == 0) {
        if (--s.fail_times == 0) s.fail_symbol = nullptr;
        return s.fail_result;
    }
    return success;
}

/// A call in a context, about a stream of that context (null: the legacy one).
int enter_stream(const char* symbol, void* handle) {
    Context* const current = contexts().top();
    if (const int result = enter(symbol, handle, current)) return result;
    if (!current) return invalid_context;
    if (!current->alive) return destroyed;
    const auto* const stream = static_cast<Stream*>(handle);
    if (stream && stream->context != current) return invalid_handle;
    if (stream && stream->number != current->number) die(symbol, "on a stream of a context that is gone");
    return success;
}

int enter_context(const char* symbol) {
    Context* const current = contexts().top();
    if (const int result = enter(symbol, nullptr, current)) return result;
    if (!current) return invalid_context;
    return current->alive ? success : destroyed;
}

/// What a driver keeps for the process, so that it is no leak of the program.
template <class T>
T* kept(T* object) {
    static auto& all = *new std::vector<void*>;
    const std::lock_guard lock(state().mutex);
    all.push_back(object);
    return object;
}

void break_captures() {
    for (Stream* s : state().captured)
        if (s) s->broken = true;
}

/// What may not be done while anything is captured, unless the thread said so.
int unsafe_in_capture() {
    if (state().captures == 0 || capture_mode() == 2) return success;
    break_captures();
    return unsupported;
}

std::uint64_t capture_of(void* handle) { return handle ? static_cast<Stream*>(handle)->capture : 0; }

}  // namespace

void forget_calls() { state().count = 0, state().context_questions = 0; }
long context_questions() { return state().context_questions; }
std::size_t call_count() { return state().count; }
Call call(std::size_t index) { return state().calls[index]; }

int count_of(const char* symbol) {
    const std::lock_guard lock(state().mutex);
    int n = 0;
    for (std::size_t i = 0; i < state().count; ++i) n += std::strcmp(state().calls[i].symbol, symbol) == 0;
    return n;
}

Launch last_launch() { return state().launch; }
TensorMap last_map() {
    const std::lock_guard lock(state().mutex);
    return state().map;
}
void watch_argument(int index) { state().watched = index; }
const std::uint64_t* watched_words() { return state().words; }

void fail_next(const char* symbol, int result, int times) {
    const std::lock_guard lock(state().mutex);
    state().fail_symbol = symbol, state().fail_result = result, state().fail_times = times;
}

long live_allocations() { return state().live; }
long live_events() { return state().events; }

void reset_primary(int device) {
    const std::lock_guard lock(state().mutex);
    if (state().primary[device]) state().primary[device]->alive = false;
}

bool begin_capture(void* handle) {
    const std::lock_guard lock(state().mutex);
    auto* const stream = static_cast<Stream*>(handle);
    stream->capture = ++state().last_capture;
    stream->broken = false;
    for (Stream*& slot : state().captured)
        if (!slot) {
            slot = stream;
            ++state().captures;
            return true;
        }
    return false;
}

bool end_capture(void* handle) {
    const std::lock_guard lock(state().mutex);
    auto* const stream = static_cast<Stream*>(handle);
    for (Stream*& slot : state().captured)
        if (slot == stream) slot = nullptr, --state().captures;
    stream->capture = 0;
    return !stream->broken;
}

void on_launch(void (*action)()) { state().action = action; }

}  // namespace tessera::fake

using namespace tessera::fake;
using tessera::runtime::Copy2D;
using tessera::runtime::LaunchConfiguration;

namespace {

int note_launch(const char* symbol, void* kernel, void* handle, void** arguments, const Launch& launch) {
    if (const int result = enter_stream(symbol, handle)) return result;
    if (!kernel || static_cast<Kernel*>(kernel)->name[0] == '\0') return invalid_handle;
    {
        const std::lock_guard lock(state().mutex);
        state().launch = launch;
        if (const int index = state().watched; index >= 0)
            std::memcpy(state().words, arguments[index], sizeof state().words);
    }
    if (auto* const action = state().action.load()) action();
    return success;
}

int free_checked(std::uint64_t address, void* stream) {
    auto* const header = reinterpret_cast<Header*>(address - sizeof(Header));
    if (header->magic != 0x5445535345524121u) return invalid_value;
    if (header->number != header->context->number) die("cuMemFreeAsync", "of memory of a context that is gone");
    if (header->capture != capture_of(stream)) {
        if (capture_of(stream) != 0) static_cast<tessera::fake::Stream*>(stream)->broken = true;
        return capture_of(stream) != 0 ? unsupported : invalid_value;
    }
    header->magic = 0;
    std::free(header->memory);
    --state().live;
    return success;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
    if (state().process == 0) std::atexit([] { state().shut_down = true; });
    state().process = getpid();
    return success;
}
int cuGetErrorName(int result, const char** name) {
    *name = result == success ? "CUDA_SUCCESS" : "CUDA_ERROR_OF_THE_FAKE";
    return success;
}
int cuGetErrorString(int, const char** text) {
    *text = "as the test wants";
    return success;
}
int cuDriverGetVersion(int* version) {
    *version = 13000;
    return success;
}
int cuDeviceGetCount(int* count) {
    *count = device_count;
    return success;
}
int cuDeviceGet(int* device, int index) {
    *device = index;
    return success;
}
int cuDeviceGetName(char* name, int size, int device) {
    std::snprintf(name, static_cast<std::size_t>(size), "fake GPU %d", device);
    return success;
}
int cuDeviceGetAttribute(int* value, int which, int) {
    switch (which) {
        case tessera::runtime::attribute_multiprocessors: *value = 132; break;
        case tessera::runtime::attribute_l2_bytes: *value = 50 << 20; break;
        case tessera::runtime::attribute_shared_bytes: *value = 227 << 10; break;
        case tessera::runtime::attribute_capability_major: *value = 9; break;
        default: *value = 0;
    }
    return success;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
    if (const int result = enter("cuDevicePrimaryCtxRetain", nullptr, nullptr)) return result;
    const std::lock_guard lock(state().mutex);
    Context*& primary = state().primary[device];
    if (!primary) primary = new Context{device, true};
    if (!primary->alive) ++primary->number, primary->alive = true;
    *context = primary;
    return success;
}
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    if (const int result = enter("cuDevicePrimaryCtxGetState", nullptr, nullptr)) return result;
    const std::lock_guard lock(state().mutex);
    *flags = 0;
    *active = state().primary[device] && state().primary[device]->alive;
    return success;
}
int cuCtxCreate_v2(void** context, unsigned, int device) {
    if (const int result = enter("cuCtxCreate_v2", nullptr, nullptr)) return result;
    auto* const made = kept(new Context{device, false});
    *context = made;
    ContextStack& stack = contexts();
    stack.contexts[stack.depth++] = made;
    return success;
}
int cuCtxDestroy_v2(void* context) {
    if (const int result = enter("cuCtxDestroy_v2", nullptr, nullptr)) return result;
    static_cast<Context*>(context)->alive = false;
    if (contexts().top() == context) --contexts().depth;
    return success;
}
int cuCtxGetDevice(int* device) {
    if (const int result = enter_context("cuCtxGetDevice")) return result;
    *device = contexts().top()->device;
    return success;
}
int cuCtxGetCurrent(void** context) {
    if (state().shut_down) return deinitialized;
    ++state().context_questions;
    *context = contexts().top();
    return success;
}
int cuCtxPushCurrent_v2(void* context) {
    if (const int result = enter("cuCtxPushCurrent_v2", nullptr, static_cast<Context*>(context))) return result;
    if (!static_cast<Context*>(context)->alive) return destroyed;
    ContextStack& stack = contexts();
    if (stack.depth == most_depth) return invalid_value;
    stack.contexts[stack.depth++] = static_cast<Context*>(context);
    return success;
}
int cuCtxPopCurrent_v2(void** context) {
    if (const int result = enter("cuCtxPopCurrent_v2", nullptr, contexts().top())) return result;
    if (contexts().depth == 0) return invalid_context;
    *context = contexts().contexts[--contexts().depth];
    return success;
}
int cuStreamCreate(void** stream, unsigned flags) {
    if (const int result = enter_context("cuStreamCreate")) return result;
    *stream = kept(new tessera::fake::Stream{contexts().top(), contexts().top()->number, flags == 0});
    return success;
}
int cuStreamDestroy_v2(void* stream) {
    if (const int result = enter_stream("cuStreamDestroy_v2", stream)) return result;
    if (capture_of(stream) != 0) end_capture(stream);
    delete static_cast<tessera::fake::Stream*>(stream);
    return success;
}
int cuStreamSynchronize(void* stream) {
    if (const int result = enter_stream("cuStreamSynchronize", stream)) return result;
    if (capture_of(stream) == 0) return success;
    static_cast<tessera::fake::Stream*>(stream)->broken = true;
    return unsupported;
}
int cuStreamGetCtx(void* stream, void** context) {
    if (const int result = enter_context("cuStreamGetCtx")) return result;
    *context = stream ? static_cast<tessera::fake::Stream*>(stream)->context : contexts().top();
    return success;
}
int cuStreamIsCapturing(void* stream, int* status) {
    if (const int result = enter_stream("cuStreamIsCapturing", stream)) return result;
    *status = capture_of(stream) != 0;
    if (stream) return success;
    const std::lock_guard lock(state().mutex);
    for (const auto* s : state().captured)
        if (s && s->blocking) return implicit;
    return success;
}
int cuStreamGetCaptureInfo_v2(void* stream, int* status, std::uint64_t* number, void**, const void**, std::size_t*) {
    if (const int result = enter_stream("cuStreamGetCaptureInfo_v2", stream)) return result;
    *number = capture_of(stream);
    *status = *number != 0;
    return success;
}
int cuEventCreate(void** event, unsigned) {
    if (const int result = enter_context("cuEventCreate")) return result;
    if (const int result = unsafe_in_capture()) return result;
    *event = new Event{contexts().top(), contexts().top()->number};
    ++state().events;
    return success;
}
int cuEventRecord(void* event, void* stream) {
    if (const int result = enter_stream("cuEventRecord", stream)) return result;
    auto* const e = static_cast<Event*>(event);
    if (e->context != contexts().top()) return invalid_handle;
    e->recorded = true;
    return success;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    if (const int result = enter_stream("cuStreamWaitEvent", stream)) return result;
    const auto* const e = static_cast<Event*>(event);
    if (!e->context->alive || e->number != e->context->number) die("cuStreamWaitEvent", "for a context that is gone");
    if (capture_of(stream) != 0) static_cast<tessera::fake::Stream*>(stream)->broken = true;
    return !e->recorded ? invalid_value : capture_of(stream) != 0 ? unsupported : success;
}
int cuEventDestroy_v2(void* event) {
    if (const int result = enter("cuEventDestroy_v2", nullptr, contexts().top())) return result;
    delete static_cast<Event*>(event);
    --state().events;
    return success;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
    std::swap(*mode, capture_mode());
    return success;
}
int cuMemPoolCreate(void** pool, const tessera::runtime::MemoryPoolProperties*) {
    if (const int result = enter("cuMemPoolCreate", nullptr, nullptr)) return result;
    *pool = kept(new int);
    return success;
}
int cuMemPoolSetAttribute(void*, int, void*) { return success; }
int cuMemAllocFromPoolAsync(std::uint64_t* address, std::size_t bytes, void*, void* stream) {
    if (const int result = enter_stream("cuMemAllocFromPoolAsync", stream)) return result;
    void* const memory = kept(std::aligned_alloc(256, sizeof(Header) + (bytes + 255) / 256 * 256));
    if (!memory) return 2;
    auto* const header = new (memory)
        Header{0x5445535345524121u, capture_of(stream), contexts().top(), contexts().top()->number, memory};
    *address = reinterpret_cast<std::uint64_t>(header) + sizeof(Header);
    ++state().live;
    return success;
}
int cuMemFreeAsync(std::uint64_t address, void* stream) {
    if (const int result = enter_stream("cuMemFreeAsync", stream)) return result;
    return free_checked(address, stream);
}
int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
    *free_bytes = 1 << 20, *total = 2 << 20;
    return success;
}
int cuMemcpyAsync(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) {
    if (const int result = enter_stream("cuMemcpyAsync", stream)) return result;
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return success;
}
int cuMemcpy2DAsync_v2(const Copy2D* c, void* stream) {
    if (const int result = enter_stream("cuMemcpy2DAsync_v2", stream)) return result;
    for (std::size_t row = 0; row < c->height; ++row)
        std::memmove(reinterpret_cast<char*>(c->destination) + row * c->destination_pitch,
                     reinterpret_cast<const char*>(c->source) + row * c->source_pitch, c->width_bytes);
    return success;
}
int cuMemsetD8Async(std::uint64_t address, unsigned char value, std::size_t bytes, void* stream) {
    if (const int result = enter_stream("cuMemsetD8Async", stream)) return result;
    std::memset(reinterpret_cast<void*>(address), value, bytes);
    return success;
}
int cuLibraryLoadData(void** library, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
    if (const int result = enter("cuLibraryLoadData", nullptr, contexts().top())) return result;
    if (const int result = unsafe_in_capture()) return result;
    if (std::memcmp(code,
                    "\x7f"
                    "ELF",
                    4) != 0)
        return invalid_image;
    auto* const made = kept(new Kernel{});
    std::snprintf(made->name, sizeof made->name, "%s", static_cast<const char*>(code) + 4);
    *library = made;
    return success;
}
int cuLibraryUnload(void* library) {
    if (const int result = enter("cuLibraryUnload", nullptr, contexts().top())) return result;
    static_cast<Kernel*>(library)->name[0] = '\0';  // kept, so that a launch after it is seen
    return success;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
    if (const int result = enter("cuLibraryGetKernel", nullptr, contexts().top())) return result;
    *kernel = library;
    return std::strcmp(static_cast<Kernel*>(library)->name, name) == 0 ? success : not_found;
}
int cuKernelGetFunction(void** function, void* kernel) {
    if (const int result = enter_context("cuKernelGetFunction")) return result;
    if (const int result = unsafe_in_capture()) return result;
    *function = kernel;
    return success;
}
int cuTensorMapEncodeTiled(tessera::runtime::TensorMapWords* map, int element, unsigned rank, void* address,
                           const std::uint64_t* extents, const std::uint64_t* strides, const std::uint32_t* box,
                           const std::uint32_t* steps, int interleave, int swizzle, int promotion, int fill) {
    if (const int result = enter_context("cuTensorMapEncodeTiled")) return result;
    if (rank < 1 || rank > 5 || reinterpret_cast<std::uintptr_t>(map) % 64 != 0) return invalid_value;
    const std::lock_guard lock(state().mutex);
    tessera::fake::TensorMap& m = state().map;
    m = {element, rank, reinterpret_cast<std::uint64_t>(address), {}, {}, {}, {}, interleave, swizzle, promotion, fill};
    for (unsigned i = 0; i < rank; ++i) {
        m.extents[i] = extents[i], m.box[i] = box[i], m.steps[i] = steps[i];
        if (i + 1 < rank) m.strides[i] = strides[i];
    }
    *map = {{m.address, ++state().maps}};
    return success;
}
int cuKernelSetAttribute(int, int, void*, int) { return success; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* kernel, int threads, std::size_t) {
    if (const int result = enter_context("cuOccupancyMaxActiveBlocksPerMultiprocessor")) return result;
    if (!kernel || static_cast<Kernel*>(kernel)->name[0] == '\0') return invalid_handle;
    *blocks = 2048 / threads;
    return success;
}
int cuLaunchKernel(void* kernel, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned shared_bytes, void* stream, void** arguments, void**) {
    return note_launch("cuLaunchKernel", kernel, stream, arguments, {stream, blocks, threads, shared_bytes, 0, 0});
}
int cuLaunchKernelEx(const LaunchConfiguration* c, void* kernel, void** arguments, void**) {
    return note_launch("cuLaunchKernelEx", kernel, c->stream, arguments,
                       {c->stream, c->blocks_x, c->threads_x, c->shared_bytes, static_cast<int>(c->attribute_count),
                        c->attribute_count > 0 ? c->attributes[0].id : 0});
}
}

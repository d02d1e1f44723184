#pragma once

#include <dlfcn.h>

// Driver calls that only tests make.

namespace tessera::test {

template <class Signature>
Signature* driver_call(const char* symbol) {
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    return reinterpret_cast<Signature*>(dlsym(library, symbol));
}

/// Graphs are made and launched in a context: the primary one, where the thread has none.
inline void make_context_current() {
    void* context = nullptr;
    if (driver_call<int(void**)>("cuCtxGetCurrent")(&context) == 0 && context) return;
    driver_call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0);
    driver_call<int(void*)>("cuCtxSetCurrent")(context);
}

/// What a captured stream did, ready to be repeated.
class Graph {
public:
    static constexpr unsigned long long auto_free_on_launch = 1;
    explicit Graph(void* graph, unsigned long long flags = 0) {
        make_context_current();
        code_ = driver_call<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&executable_, graph,
                                                                                                   flags);
    }
    bool launch(void* stream) const {
        return driver_call<int(void*, void*)>("cuGraphLaunch")(executable_, stream) == 0;
    }
    bool is_ready() const { return executable_ != nullptr; }
    int code() const { return code_; }  // the driver's, of making it

private:
    void* executable_ = nullptr;
    int code_ = 0;
};

enum class CaptureMode { global = 0, thread_local_mode = 1, relaxed = 2 };

inline bool begin_capture(void* stream, CaptureMode mode) {
    return driver_call<int(void*, int)>("cuStreamBeginCapture_v2")(stream, static_cast<int>(mode)) == 0;
}

/// The captured graph; null if the capture was broken.
inline void* end_capture(void* stream) {
    void* graph = nullptr;
    return driver_call<int(void*, void**)>("cuStreamEndCapture")(stream, &graph) == 0 ? graph : nullptr;
}

}  // namespace tessera::test

#include "bench/graph_replay.hpp"

#include <dlfcn.h>

#include "dsl/base/error.hpp"
#include "runtime/driver/driver.hpp"

namespace tessera::bench {

namespace {

/// Driver calls that only measuring needs.
template <class Signature>
Signature* driver_call(const char* symbol) {
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    auto* call = reinterpret_cast<Signature*>(library ? dlsym(library, symbol) : nullptr);
    if (!call) throw UsageError(std::string("the CUDA driver has no ") + symbol + "; update it");
    return call;
}

void check(int result, const char* call) { runtime::check_driver(result, call, "measure"); }

class Graph {
public:
    Graph(const Stream& stream, int launches, const std::function<void(int)>& launch) : stream_(stream) {
        check(driver_call<int(void*, int)>("cuStreamBeginCapture_v2")(stream.handle(), runtime::capture_mode_relaxed),
              "cuStreamBeginCapture");
        for (int i = 0; i < launches; ++i) launch(i);
        void* graph = nullptr;
        check(driver_call<int(void*, void**)>("cuStreamEndCapture")(stream.handle(), &graph), "cuStreamEndCapture");
        check(
            driver_call<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&executable_, graph, 0),
            "cuGraphInstantiate");
        driver_call<int(void*)>("cuGraphDestroy")(graph);
        for (void*& event : events_)
            check(driver_call<int(void**, unsigned)>("cuEventCreate")(&event, 0), "cuEventCreate");
    }
    ~Graph() {
        driver_call<int(void*)>("cuGraphExecDestroy")(executable_);
        for (void* event : events_) driver_call<int(void*)>("cuEventDestroy_v2")(event);
    }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    /// Microseconds of one replay.
    double replay() const {
        const auto record = driver_call<int(void*, void*)>("cuEventRecord");
        check(record(events_[0], stream_.handle()), "cuEventRecord");
        check(driver_call<int(void*, void*)>("cuGraphLaunch")(executable_, stream_.handle()), "cuGraphLaunch");
        check(record(events_[1], stream_.handle()), "cuEventRecord");
        check(driver_call<int(void*)>("cuEventSynchronize")(events_[1]), "cuEventSynchronize");
        float ms = 0;
        check(driver_call<int(float*, void*, void*)>("cuEventElapsedTime")(&ms, events_[0], events_[1]),
              "cuEventElapsedTime");
        return 1000.0 * static_cast<double>(ms);
    }

private:
    const Stream& stream_;
    void* executable_ = nullptr;
    void* events_[2] = {};
};

constexpr int few = 8, many = 40, pairs = 15;

}  // namespace

std::vector<double> times_by_replays(const Stream& stream, const std::function<void(int)>& launch) {
    const Graph short_run(stream, few, launch), long_run(stream, many, launch);
    short_run.replay();
    long_run.replay();
    std::vector<double> times;
    for (int i = 0; i < pairs; ++i) times.push_back((long_run.replay() - short_run.replay()) / (many - few));
    return times;
}

}  // namespace tessera::bench

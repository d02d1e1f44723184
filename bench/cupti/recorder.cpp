#include "bench/cupti/recorder.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>
#include <mutex>

#include "dsl/base/error.hpp"

namespace tessera::bench::cupti {

namespace {

constexpr std::uint32_t kinds[] = {kind_kernel, kind_copy, kind_fill};
constexpr std::size_t buffer_bytes = 4 << 20;

/// What the callbacks work on: CUPTI hands them nothing of the caller's, and calls them from threads of its own.
struct Received {
    std::mutex mutex;
    const Api* api = nullptr;
    std::vector<Activity> activities;
    Result problem = success;
};
Received& received() {
    static Received& all = *new Received;
    return all;
}

void buffer_requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, buffer_bytes));
    *bytes = *buffer ? buffer_bytes : 0;
    *most_records = 0;  // as many as fit
}

void buffer_completed(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
    Received& to = received();
    const std::lock_guard lock(to.mutex);
    void* next = nullptr;
    while (to.api && valid_bytes > 0) {
        const Result result = to.api->next_record(buffer, valid_bytes, &next);
        if (result != success) {
            if (result != no_more_records) to.problem = result;
            break;
        }
        const auto* const record = static_cast<const Record*>(next);
        if (std::find(std::begin(kinds), std::end(kinds), record->kind) != std::end(kinds))
            to.activities.push_back({record->begin, record->end});
    }
    std::free(buffer);
}

Api open_library(const std::filesystem::path& path) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw UsageError(fmt::format("{} cannot be opened: {}", path.native(), dlerror()));
    Api api;
#define TESSERA_ENTRY(name, symbol, signature)                               \
    api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, symbol)); \
    if (!api.name)                                                           \
        throw UsageError(fmt::format("{} has no {}: it is no CUPTI of CUDA 12 or 13", path.native(), symbol));
    TESSERA_CUPTI_ENTRIES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
    return api;
}

/// Tracing for a scope.
class Enabled {
public:
    explicit Enabled(const Api& api) : api_(api) {}
    ~Enabled() {
        for (std::uint32_t kind : kinds) api_.disable(kind);
    }
    Enabled(const Enabled&) = delete;
    Enabled& operator=(const Enabled&) = delete;

private:
    const Api& api_;
};

}  // namespace

Recorder::Recorder(const std::filesystem::path& library) : api_(open_library(library)) {
    std::uint32_t version = 0;
    check(api_.version(&version), "cuptiGetVersion");
    if (!reads_records_of(version))
        throw UsageError(
            fmt::format("{} is version {} of CUPTI's interface, and records are known of 19 to 28 (CUDA 12) and 13xxxx "
                        "(CUDA 13)",
                        library.native(), version));
    name_ = version < 130000 ? fmt::format("CUPTI {}", version)
                             : fmt::format("CUPTI {}.{}", version / 10000, version / 100 % 100);
    {
        const std::lock_guard lock(received().mutex);
        received().api = &api_;
    }
    check(api_.register_callbacks(buffer_requested, buffer_completed), "cuptiActivityRegisterCallbacks");
}

Recorder::~Recorder() {
    const std::lock_guard lock(received().mutex);
    received().api = nullptr;
}

void Recorder::check(Result result, const char* call) const {
    if (result == success) return;
    const char* text = nullptr;
    if (api_.result_text(result, &text) != success || !text) text = "an error without a name";
    throw UsageError(fmt::format("{} gives {} ({})", call, text, result));
}

std::vector<Activity> Recorder::record(const std::function<void()>& body) {
    Received& to = received();
    std::uint64_t from = 0, until = 0;
    {
        const std::lock_guard lock(to.mutex);
        to.activities.clear();
        to.problem = success;
    }
    check(api_.timestamp(&from), "cuptiGetTimestamp");
    {
        const Enabled off_again(api_);
        for (std::uint32_t kind : kinds) check(api_.enable(kind), "cuptiActivityEnable");
        body();
        check(api_.flush_all(flush_forced), "cuptiActivityFlushAll");
    }
    check(api_.timestamp(&until), "cuptiGetTimestamp");
    std::size_t lost = 0;
    check(api_.dropped_records(nullptr, 0, &lost), "cuptiActivityGetNumDroppedRecords");
    if (lost > 0) throw UsageError(fmt::format("CUPTI has lost {} records of what the GPU did", lost));
    const std::lock_guard lock(to.mutex);
    check(to.problem, "cuptiActivityGetNextRecord");
    std::sort(to.activities.begin(), to.activities.end(), [](Activity a, Activity b) { return a.begin < b.begin; });
    check_times(to.activities, from, until);
    return to.activities;
}

/// Records of another form than the known one would hardly hold such times.
void Recorder::check_times(const std::vector<Activity>& activities, std::uint64_t from, std::uint64_t to) const {
    constexpr std::uint64_t tolerance = 1'000'000;  // the clocks of CPU and GPU are matched
    for (const Activity& a : activities)
        if (a.end < a.begin || a.begin + tolerance < from || a.end > to + tolerance)
            throw UsageError(fmt::format("{} gives a record from {} to {} ns for work between {} and {} ns", name_,
                                         a.begin, a.end, from, to));
}

}  // namespace tessera::bench::cupti

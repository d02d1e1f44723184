#include "runtime/reports.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/driver/driver.hpp"

namespace tessera::runtime {

namespace {

constexpr std::size_t record_bytes = sizeof(ir::Offender);
constexpr std::size_t records_at_once = 256;
constexpr unsigned apart_from_default_stream = 1;

/// A stream of its own, so that memory can be made ready whatever the other streams do, while one is captured too.
class PrivateStream {
public:
    explicit PrivateStream(const DriverApi& api) : api_(api) {
        api_.thread_capture_mode(&mode_);
        check_driver(api_.stream_create(&handle_, apart_from_default_stream), "cuStreamCreate",
                     "make a stream for records of reports");
    }
    ~PrivateStream() {
        if (handle_) api_.stream_destroy(handle_);
        api_.thread_capture_mode(&mode_);
    }
    PrivateStream(const PrivateStream&) = delete;
    PrivateStream& operator=(const PrivateStream&) = delete;
    void* handle() const { return handle_; }

private:
    const DriverApi& api_;
    int mode_ = capture_mode_relaxed;
    void* handle_ = nullptr;
};

DriverPointer new_records(const DriverApi& api, void* pool) {
    const PrivateStream stream(api);
    DriverPointer address = 0;
    constexpr std::size_t bytes = record_bytes * records_at_once;
    check_driver(api.allocate(&address, bytes, pool, stream.handle()), "cuMemAllocFromPoolAsync",
                 "take memory for records of reports");
    check_driver(api.fill_bytes(address, 0xFF, bytes, stream.handle()), "cuMemsetD8Async", "clear records of reports");
    check_driver(api.stream_synchronize(stream.handle()), "cuStreamSynchronize", "clear records of reports");
    return address;
}

DriverPointer record_in(DriverPointer chunk, std::size_t entry) {
    return chunk + entry % records_at_once * record_bytes;
}

}  // namespace

bool Reports::captured(void* stream) const {
    int status = 0;
    return api_.stream_is_capturing(stream, &status) == driver_code::success && status != 0;
}

DriverPointer Reports::record_for(const std::shared_ptr<const ir::Program>& program, void* stream, void* pool) {
    const bool into_graph = captured(stream);
    const std::lock_guard lock(mutex_);
    const Key key{program.get(), stream};
    auto at = known_.find(key);
    if (at == known_.end()) {
        const std::size_t made = new_entry(pool);
        entries_[made].program = program;
        entries_[made].stream = stream;
        at = known_.emplace(key, made).first;
    }
    Entry& entry = entries_[at->second];
    (into_graph ? entry.captured : entry.pending) = true;
    return record_in(chunks_[at->second / records_at_once], at->second);
}

std::size_t Reports::new_entry(void* pool) {
    if (free_.empty()) forget_dead_programs();
    if (free_.empty()) {
        chunks_.push_back(new_records(api_, pool));
        entries_.resize(entries_.size() + records_at_once);
        for (std::size_t i = 1; i <= records_at_once; ++i) free_.push_back(entries_.size() - i);
    }
    const std::size_t taken = free_.back();
    free_.pop_back();
    return taken;
}

/// Records of kernels that nobody can launch any more, and that a synchronisation has looked at.
void Reports::forget_dead_programs() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        Entry& e = entries_[i];
        if (!e.program || e.pending || e.captured) continue;
        // Of one kernel, each stream's entry holds the program.
        long streams = 0;
        for (const Entry& other : entries_) streams += other.program == e.program;
        if (e.program.use_count() > streams) continue;
        known_.erase({e.program.get(), e.stream});
        e.program.reset();
        free_.push_back(i);
    }
}

std::vector<Reports::Look> Reports::to_look_at(void* stream) {
    const std::lock_guard lock(mutex_);
    std::vector<Look> looks;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        Entry& e = entries_[i];
        const bool waited_for = stream == nullptr || e.stream == stream || e.stream == nullptr;
        if (!e.captured && !(e.pending && waited_for)) continue;
        looks.push_back({i, chunks_[i / records_at_once], e.program});
        if (e.stream == stream) e.pending = false;
    }
    return looks;
}

/// What the records hold once the stream has come so far. Looks are in the order of their entries; a chunk is read in
/// one piece.
std::vector<ir::Offender> Reports::read(const std::vector<Look>& looks, void* stream) {
    std::vector<ir::Offender> held(looks.size());
    std::vector<std::vector<ir::Offender>> chunks;
    std::vector<std::size_t> chunk_of(looks.size());
    for (std::size_t i = 0; i < looks.size(); ++i) {
        if (i == 0 || looks[i].chunk != looks[i - 1].chunk) {
            chunks.emplace_back(records_at_once);
            check_driver(api_.copy(reinterpret_cast<DriverPointer>(chunks.back().data()), looks[i].chunk,
                                   records_at_once * record_bytes, stream),
                         "cuMemcpyAsync", "read what kernels on " + device_ + " reported");
        }
        chunk_of[i] = chunks.size() - 1;
    }
    wait(stream);
    for (std::size_t i = 0; i < looks.size(); ++i) held[i] = chunks[chunk_of[i]][looks[i].entry % records_at_once];
    return held;
}

void Reports::wait(void* stream) const {
    check_driver(api_.stream_synchronize(stream), "cuStreamSynchronize", "wait for a stream of " + device_);
}

void Reports::synchronize(void* stream) {
    if (captured(stream)) return wait(stream);  // which the driver refuses
    const std::vector<Look> looks = to_look_at(stream);
    const std::vector<ir::Offender> held = read(looks, stream);
    std::string text;
    for (std::size_t i = 0; i < looks.size(); ++i) {
        if (!held[i].found()) continue;
        check_driver(api_.fill_bytes(record_in(looks[i].chunk, looks[i].entry), 0xFF, record_bytes, stream),
                     "cuMemsetD8Async", "clear a report");
        text += (text.empty() ? "" : "\n") + ir::sentence_of(*looks[i].program, held[i]);
    }
    if (text.empty()) return;
    wait(stream);
    throw UsageError(text);
}

std::size_t Reports::count() const {
    const std::lock_guard lock(mutex_);
    return known_.size();
}

}  // namespace tessera::runtime

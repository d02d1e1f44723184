#include "runtime/reports.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/driver/driver.hpp"

namespace tessera::runtime {

namespace {

constexpr std::size_t record_bytes = ReportRecords::record_bytes;
constexpr std::size_t records_at_once = ReportRecords::count;

}  // namespace

bool Reports::captured(void* stream) const {
    int status = 0;
    return api_.stream_is_capturing(stream, &status) == driver_code::success && status != 0;
}

void Reports::prepare(const std::shared_ptr<const ir::Program>& program, void* stream, void* pool) {
    const std::lock_guard lock(mutex_);
    for (const bool in_graph : {false, true})
        entry_for(program, {program.get(), stream, in_graph}, Clear::beside_streams, pool);
}

DriverPointer Reports::record_for(const std::shared_ptr<const ir::Program>& program, void* stream, void* pool) {
    const bool into_graph = captured(stream);
    const std::lock_guard lock(mutex_);
    // A graph may run on any stream, so its records are ready before.
    const Clear clear = into_graph ? Clear::beside_streams : Clear::on_stream;
    const std::size_t at = entry_for(program, {program.get(), stream, into_graph}, clear, pool);
    entries_[at].pending = true;
    return chunks_[at / records_at_once].record(at);
}

std::size_t Reports::entry_for(const std::shared_ptr<const ir::Program>& program, const Key& key, Clear clear,
                               void* pool) {
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const std::size_t made = take(key.stream, clear, pool);
    entries_[made] = {program, key.stream, key.in_graph, false};
    known_.emplace(key, made);
    return made;
}

bool Reports::take_free(void* stream, Clear clear, std::size_t& taken) {
    std::vector<std::size_t>* from = &free_;
    if (clear == Clear::on_stream)
        for (ReportRecords& chunk : chunks_)
            if (from->empty() && !chunk.is_ready() && chunk.owner() == stream) from = &chunk.free;
    if (from->empty()) return false;
    taken = from->back();
    from->pop_back();
    return true;
}

std::size_t Reports::take(void* stream, Clear clear, void* pool) {
    std::size_t taken = 0;
    if (take_free(stream, clear, taken)) return taken;
    forget_dead_programs();
    if (take_free(stream, clear, taken)) return taken;
    chunks_.push_back(clear == Clear::on_stream ? ReportRecords::ordered(api_, stream, {pool, make_room_})
                                                : ReportRecords::ready(api_, {pool, make_room_}));
    entries_.resize(entries_.size() + records_at_once);
    for (std::size_t i = 1; i <= records_at_once; ++i) give_free(entries_.size() - i);
    take_free(stream, clear, taken);
    return taken;
}

void Reports::give_free(std::size_t entry) {
    ReportRecords& chunk = chunks_[entry / records_at_once];
    (chunk.is_ready() ? free_ : chunk.free).push_back(entry);
}

/// Records of kernels that nobody can launch any more, and that a synchronisation has looked at.
void Reports::forget_dead_programs() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        Entry& e = entries_[i];
        if (!e.program || e.pending) continue;
        // Of one kernel, each stream's entry holds the program.
        long streams = 0;
        for (const Entry& other : entries_) streams += other.program == e.program;
        if (e.program.use_count() > streams) continue;
        known_.erase({e.program.get(), e.stream, e.in_graphs});
        e.program.reset();
        give_free(i);
    }
}

/// Records of a context that is gone: they are never used again.
void Reports::abandon(std::size_t chunk) {
    chunks_[chunk].free.clear();
    for (std::size_t i = chunk * records_at_once; i < (chunk + 1) * records_at_once; ++i) {
        if (Entry& e = entries_[i]; e.program) known_.erase({e.program.get(), e.stream, e.in_graphs});
        entries_[i] = {};
    }
}

std::vector<Reports::Look> Reports::to_look_at(void* stream) {
    const std::lock_guard lock(mutex_);
    std::vector<Look> looks;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        Entry& e = entries_[i];
        const bool waited_for = stream == nullptr || e.stream == stream || e.stream == nullptr;
        if (!e.pending || !(e.in_graphs || waited_for)) continue;
        const ReportRecords& chunk = chunks_[i / records_at_once];
        const bool there = chunk.come_before(api_, stream);
        if (!there) {
            abandon(i / records_at_once);
            continue;
        }
        looks.push_back({i, chunk.address(), e.program});
        if (e.stream == stream && !e.in_graphs) e.pending = false;
    }
    return looks;
}

/// After a synchronisation: the chunks that it read.
void Reports::set_ready(const std::vector<Look>& looks) {
    const std::lock_guard lock(mutex_);
    for (const Look& look : looks) {
        ReportRecords& chunk = chunks_[look.entry / records_at_once];
        if (chunk.is_ready()) continue;
        chunk.set_ready(api_);
        free_.insert(free_.end(), chunk.free.begin(), chunk.free.end());
        chunk.free.clear();
    }
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
    set_ready(looks);
    std::string text;
    for (std::size_t i = 0; i < looks.size(); ++i) {
        if (!held[i].found()) continue;
        check_driver(api_.fill_bytes(looks[i].chunk + looks[i].entry % records_at_once * record_bytes, 0xFF,
                                     record_bytes, stream),
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

std::size_t Reports::allocations() const {
    const std::lock_guard lock(mutex_);
    return chunks_.size();
}

}  // namespace tessera::runtime

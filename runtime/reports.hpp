#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dsl/ir/report.hpp"
#include "runtime/driver/api.hpp"
#include "runtime/report_records.hpp"

namespace tessera::runtime {

/// The records that launches on one GPU report to, in plain device memory: one for each kernel and stream. What is
/// found in them becomes an error when a stream is synchronised, once; then they are empty again.
///
/// A synchronisation looks at what was launched on its own stream since the last one. It also looks at the default
/// stream, since others wait for that, and at captured launches, since nobody tells when a graph runs; the default
/// stream, which waits for all others, looks at everything. Calls need the stream's context to be current.
class Reports {
public:
    /// `device`: how errors name it. make_room: gives memory that is kept for later to the driver.
    Reports(
        const DriverApi& api, std::string device, std::function<void()> make_room = [] {})
        : api_(api), device_(std::move(device)), make_room_(std::move(make_room)) {}
    Reports(const Reports&) = delete;
    Reports& operator=(const Reports&) = delete;

    /// Makes the records for launches of `program`, which has rules, on `stream`, captured or not, if there are none.
    /// `pool`: where memory for more records comes from. Errors: UsageError when there is no memory.
    void prepare(const std::shared_ptr<const ir::Program>& program, void* stream, void* pool);

    /// The record for a launch, also while the stream is captured. A first one is made in the order of the stream,
    /// which waits for nothing; for a captured stream, beside it. Errors: UsageError when there is no memory.
    DriverPointer record_for(const std::shared_ptr<const ir::Program>& program, void* stream, void* pool);

    /// Waits for the stream. Errors: UsageError with the sentence of every kernel that reported; of the driver.
    void synchronize(void* stream);

    /// Kernels and streams that have a record now; for launches in captures they count again.
    std::size_t count() const;
    /// Pieces of device memory that the records are in; kept for records to come.
    std::size_t allocations() const;

private:
    struct Entry {
        std::shared_ptr<const ir::Program> program;
        void* stream = nullptr;
        bool in_graphs = false;  // for captured launches
        bool pending = false;    // launched since its stream was synchronised; in graphs: for ever
    };
    struct Key {
        const ir::Program* program;
        void* stream;
        bool in_graph;
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& k) const {
            return reinterpret_cast<std::uintptr_t>(k.program) * 0x9E3779B97F4A7C15u ^
                   reinterpret_cast<std::uintptr_t>(k.stream) ^ std::uintptr_t{k.in_graph};
        }
    };
    struct Look {
        std::size_t entry;
        DriverPointer chunk;
        std::shared_ptr<const ir::Program> program;
    };

    /// Where memory for a first record is cleared.
    enum class Clear : std::uint8_t { beside_streams, on_stream };
    std::size_t entry_for(const std::shared_ptr<const ir::Program>& program, const Key& key, Clear clear, void* pool);
    std::size_t take(void* stream, Clear clear, void* pool);
    bool take_free(void* stream, Clear clear, std::size_t& taken);
    void give_free(std::size_t entry);
    void forget_dead_programs();
    void abandon(std::size_t chunk);
    std::vector<Look> to_look_at(void* stream);
    std::vector<ir::Offender> read(const std::vector<Look>& looks, void* stream);
    void set_ready(const std::vector<Look>& looks);
    void wait(void* stream) const;
    bool captured(void* stream) const;

    const DriverApi& api_;
    const std::string device_;
    const std::function<void()> make_room_;
    mutable std::mutex mutex_;
    std::vector<ReportRecords> chunks_;  // entry i's record is in chunk i / ReportRecords::count
    std::vector<Entry> entries_;
    std::vector<std::size_t> free_;  // entries without a program, in chunks that are ready
    std::unordered_map<Key, std::size_t, KeyHash> known_;
};

}  // namespace tessera::runtime

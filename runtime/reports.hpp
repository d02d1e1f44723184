#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dsl/ir/report.hpp"
#include "runtime/driver/api.hpp"

namespace tessera::runtime {

/// The records that launches on one GPU report to, in plain device memory: one for each kernel and stream. What is
/// found in them becomes an error when a stream is synchronised, once; then they are empty again.
///
/// A synchronisation looks at what was launched on its own stream since the last one. It also looks at the default
/// stream, since others wait for that, and at captured launches, since nobody tells when a graph runs; the default
/// stream, which waits for all others, looks at everything. Calls need the stream's context to be current.
class Reports {
public:
    /// `device`: how errors name it.
    Reports(const DriverApi& api, std::string device) : api_(api), device_(std::move(device)) {}
    Reports(const Reports&) = delete;
    Reports& operator=(const Reports&) = delete;

    /// The record for a launch of `program`, which has rules, on `stream`, also while that is captured. `pool`: where
    /// memory for more records comes from. Errors: UsageError when there is no memory.
    DriverPointer record_for(const std::shared_ptr<const ir::Program>& program, void* stream, void* pool);

    /// Waits for the stream. Errors: UsageError with the sentence of every kernel that reported; of the driver.
    void synchronize(void* stream);

    /// Kernels and streams that have a record now.
    std::size_t count() const;

private:
    struct Entry {
        std::shared_ptr<const ir::Program> program;
        void* stream = nullptr;
        bool pending = false;   // launched since its stream was synchronised
        bool captured = false;  // part of a graph that may run at any time
    };
    struct Key {
        const ir::Program* program;
        void* stream;
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& k) const {
            return reinterpret_cast<std::uintptr_t>(k.program) * 0x9E3779B97F4A7C15u ^
                   reinterpret_cast<std::uintptr_t>(k.stream);
        }
    };
    struct Look {
        std::size_t entry;
        DriverPointer chunk;
        std::shared_ptr<const ir::Program> program;
    };

    std::size_t new_entry(void* pool);
    void forget_dead_programs();
    std::vector<Look> to_look_at(void* stream);
    std::vector<ir::Offender> read(const std::vector<Look>& looks, void* stream);
    void wait(void* stream) const;
    bool captured(void* stream) const;

    const DriverApi& api_;
    const std::string device_;
    mutable std::mutex mutex_;
    std::vector<DriverPointer> chunks_;  // of memory, each with the records of as many entries
    std::vector<Entry> entries_;
    std::vector<std::size_t> free_;  // entries without a program
    std::unordered_map<Key, std::size_t, KeyHash> known_;
};

}  // namespace tessera::runtime

#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "dsl/ir/report.hpp"
#include "runtime/driver/api.hpp"

namespace tessera::runtime {

/// A piece of device memory with as many empty records of reports. Either it is ready, for every stream; or its
/// clearing was only given to a stream, `owner`: that stream's launches may use it at once, others read it after the
/// clearing.
class ReportRecords {
public:
    static constexpr std::size_t count = 256;
    static constexpr std::size_t record_bytes = sizeof(ir::Offender);
    static constexpr std::size_t bytes = count * record_bytes;

    /// Where memory comes from: a pool, and what gives more to the driver where that has none.
    struct Memory {
        void* pool;
        const std::function<void()>& make_room;
    };
    /// Ready when the call returns, whatever the streams do, also while one is captured.
    static ReportRecords ready(const DriverApi& api, const Memory& memory);
    /// In the order of the stream, which is not captured and of which the context is current. Waits for nothing.
    static ReportRecords ordered(const DriverApi& api, void* stream, const Memory& memory);

    DriverPointer address() const { return address_; }
    DriverPointer record(std::size_t i) const { return address_ + i % count * record_bytes; }
    bool is_ready() const { return cleared_ == nullptr; }
    void* owner() const { return owner_; }

    /// What is given to `stream` from now on comes after the clearing. False: the records went with their context.
    bool come_before(const DriverApi& api, void* stream) const;
    /// The clearing is known to be done.
    void set_ready(const DriverApi& api);

    std::vector<std::size_t> free;  // while not ready: records that only the owner may take

private:
    bool has_context(const DriverApi& api) const;

    DriverPointer address_ = 0;
    void *owner_ = nullptr, *context_ = nullptr, *cleared_ = nullptr;  // the last: an event
};

}  // namespace tessera::runtime

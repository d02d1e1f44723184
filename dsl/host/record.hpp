#pragma once

#include <mutex>

#include "dsl/ir/report.hpp"

namespace tessera::host {

/// What the workers of a launch report, as the record of a launch on a device keeps it.
class Record {
public:
    void meet(const ir::Offender& offender) {
        const std::lock_guard lock(mutex_);
        first_ = ir::Offender::first(first_, offender);
    }
    /// After the workers are done.
    const ir::Offender& first() const { return first_; }

private:
    std::mutex mutex_;
    ir::Offender first_;
};

}  // namespace tessera::host

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dsl/host/code.hpp"
#include "dsl/host/copies.hpp"
#include "dsl/host/history.hpp"
#include "dsl/host/launch.hpp"

namespace tessera::host {

/// Looks at every access of a block before it touches memory: bounds, alignment, agreement of offset and coordinates,
/// and the order of accesses to shared memory; words the errors of the other checks, too. One for each worker.
class AccessChecker {
public:
    AccessChecker(const Launch& launch, const Code& code);

    void begin_block(std::int64_t block);
    /// Errors: UsageError if a copy is under way that nothing has waited for.
    void end_block() const;
    /// The copies under way are complete.
    void wait() { copies_.clear(); }
    void barrier(int first_thread, int threads);

    /// `coordinates`: a register of i64 for each axis. Threads first_thread … take part.
    /// Errors: UsageError with the writer's line; InternalError if offset and coordinates name different elements.
    void check(const AccessInfo& info, const VectorAccess& access, const std::int64_t* const* coordinates,
               int first_thread);

    /// Errors: UsageError saying that the word is read before it is written.
    [[noreturn]] void undefined_word(const UndefinedRead& read) const;

    /// Errors: UsageError saying that a / b is outside of what a bounded division allows.
    [[noreturn]] void unbounded_division(const Place& place, float a, float b, int thread) const;

private:
    struct Where;  // one thread's part of an access
    void check_bounds(const Where& at) const;
    void check_offset(const Where& at) const;
    void check_alignment(const Where& at) const;
    void check_order(const Where& at);
    void check_copies(const Where& at);
    std::int64_t expected_offset(const Where& at, int lane) const;
    bool plain_lanes(const Where& at) const;
    std::string describe(const Where& at) const;
    std::string describe_thread(const Where& at) const;
    std::string describe_block() const;

    const Launch& launch_;
    const Code& code_;
    std::optional<SharedHistory> history_;
    CopiesUnderWay copies_;
    std::int64_t block_ = 0;
};

}  // namespace tessera::host

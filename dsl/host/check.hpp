#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dsl/host/box.hpp"
#include "dsl/host/code.hpp"
#include "dsl/host/copies.hpp"
#include "dsl/host/history.hpp"
#include "dsl/host/launch.hpp"
#include "dsl/host/products.hpp"

namespace tessera::host {

/// Looks at every access of a block before it touches memory: bounds, alignment, agreement of offset and coordinates,
/// and the order of accesses to shared memory; words the errors of the other checks, too. One for each worker.
class AccessChecker {
public:
    AccessChecker(const Launch& launch, const Code& code);

    void begin_block(std::int64_t block);
    /// Errors: UsageError if a copy is under way that nothing has waited for.
    void end_block() const;
    void commit() { copies_.commit(); }
    /// The copies under way are complete, but those of the last groups.
    void wait(std::uint32_t pending);

    /// One mbarrier of the tile that `info` names, or all of them; `stage` as offset and coordinate of threads
    /// first_thread …. Errors: as for accesses.
    void start(const AccessInfo& info);
    void check_mbarrier(const AccessInfo& info, const std::int64_t* stage, int first_thread, int threads);
    /// These threads have arrived; `completes`: it was the phase's last arrival.
    void arrive(const AccessInfo& info, std::int64_t stage, int first_thread, int threads, bool completes);
    /// These threads have found a phase complete.
    void pass(const AccessInfo& info, std::int64_t stage, int first_thread, int threads);
    /// Errors: UsageError saying that the wait would last forever.
    [[noreturn]] void endless_wait(const AccessInfo& info, std::int64_t stage, std::int64_t parity) const;
    void barrier(int first_thread, int threads);
    /// What these threads have stored comes ahead of bulk copies and of products that read in place.
    void fence(int first_thread, int threads);

    /// Tensor cores read `rows` rows of the tile that `info` names, of 32 bytes from this element offset on (before the
    /// swizzle), for four warps from first_thread on; until wait_products(). Errors: as for accesses; UsageError if
    /// threads have written there and not fenced it.
    void start_product(const AccessInfo& info, std::int64_t offset, int rows, int first_thread);
    void wait_products(int first_thread, int threads);

    /// `coordinates`: a register of i64 for each axis. Threads first_thread … take part.
    /// Errors: UsageError with the writer's line; InternalError if offset and coordinates name different elements.
    void check(const AccessInfo& info, const VectorAccess& access, const std::int64_t* const* coordinates,
               int first_thread);
    /// A copy whose bytes that mbarrier counts.
    void check_bulk(const AccessInfo& info, const VectorAccess& access, const std::int64_t* const* coordinates,
                    int first_thread, const AccessInfo& mbarrier, const std::int64_t* stage);

    /// A copy by a tensor map to these coordinates of the tile that `info` names.
    void check_box(const Box& box, const AccessInfo& info, const std::int64_t* to, int thread,
                   const AccessInfo& mbarrier, const std::int64_t* stage);

    /// Errors: UsageError saying that the word is read before it is written.
    [[noreturn]] void undefined_word(const UndefinedRead& read) const;

    /// Errors: UsageError saying that a / b, or a, is outside of what a bounded division, or cast, allows.
    [[noreturn]] void out_of_bounds(const Bound& bound, float a, float b, int thread) const;

private:
    struct Where;  // one thread's part of an access
    void check_bounds(const Where& at) const;
    void check_offset(const Where& at) const;
    void check_alignment(const Where& at) const;
    void check_order(const Where& at);
    void check_copies(const Where& at);
    void check_sources(const Where& at);
    void check_roles(const Where& at);
    int role_of(int thread) const;
    std::string order_cure(const AccessInfo& info, int thread, const SharedHistory::Touch& other) const;
    std::string copy_cure(const AccessInfo& copy) const;
    void check_operands(const Where& at);
    void read_for_product(std::size_t byte, const AccessInfo& info, int first_thread);
    CopySource source_of(const Where& at) const;
    static CopySource source_at(std::size_t tensor, std::int64_t byte, std::int64_t bytes);
    void check_fence(const Where& at);
    std::size_t mbarrier_byte(const AccessInfo& info, std::int64_t stage) const;
    std::int64_t expected_offset(const Where& at, int lane) const;
    bool plain_lanes(const Where& at) const;
    std::string describe(const Where& at) const;
    std::string describe_thread(const Where& at) const;
    std::string describe_block() const;

    const Launch& launch_;
    const Code& code_;
    std::optional<SharedHistory> history_;
    CopiesUnderWay copies_;
    std::vector<CopySource> sources_;                                  // by thread: of the copy being looked at
    std::vector<bool> by_roles_;                                       // by tensor: several roles store to it
    std::unordered_map<std::uintptr_t, SharedHistory::Touch> stores_;  // to these, by address; of the latest role
    ProductsUnderWay products_;
    struct Arrivals {
        Clock gathered, complete;  // what those know that have arrived, up to the last phase that is complete
    };
    std::map<std::size_t, Arrivals> arrivals_;  // by byte of the mbarrier
    struct Stored {
        std::size_t begin, end;  // bytes
        int thread;
    };
    std::vector<Stored> unfenced_;
    std::size_t counted_by_ = CopiesUnderWay::none;  // what counts the bytes of the copy being looked at
    std::int64_t block_ = 0;
};

}  // namespace tessera::host

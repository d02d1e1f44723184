#include <algorithm>
#include <array>

#include "dsl/base/error.hpp"
#include "dsl/host/check_where.hpp"

// What the checks know of asynchronous copies: nobody touches what is under way, and mbarriers count.

namespace tessera::host {

namespace {
constexpr std::int64_t mbarrier_bytes = 8;
}  // namespace

void AccessChecker::check_copies(const Where& at) {
    const auto byte = static_cast<std::size_t>(launch_.program.shared[at.memory()].byte_offset + at.byte_offset());
    const auto bytes = static_cast<std::size_t>(at.bytes());
    if (const std::size_t other = copies_.meets(byte, bytes); other != CopiesUnderWay::none)
        throw UsageError(at.info.place,
                         fmt::format("kernel '{}': {} meets a copy that is under way, started at {} ({}); {}",
                                     launch_.program.name, describe(at), place_text(code_.accesses[other].place),
                                     describe_thread(at), copy_cure(code_.accesses[other])));
    if (at.info.copy)
        copies_.start({byte, byte + bytes, static_cast<std::size_t>(&at.info - code_.accesses.data()), at.thread,
                       counted_by_, sources_[static_cast<std::size_t>(at.thread)]});
}

CopySource AccessChecker::source_at(std::size_t tensor, std::int64_t byte, std::int64_t bytes) {
    constexpr int tensor_shift = 48;
    return {(static_cast<std::uint64_t>(tensor) << tensor_shift) + static_cast<std::uint64_t>(byte),
            static_cast<std::uint64_t>(bytes)};
}

CopySource AccessChecker::source_of(const Where& at) const {
    if (launch_.program.tensors[at.memory()].role != ir::Role::inout) return {};
    return source_at(at.memory(), at.byte_offset(), at.bytes());
}

/// What a copy reads stays as it is until the wait.
void AccessChecker::check_sources(const Where& at) {
    if (at.info.copied) sources_[static_cast<std::size_t>(at.thread)] = source_of(at);
    if (!at.info.store) return;
    if (const std::size_t other = copies_.reads(source_of(at)); other != CopiesUnderWay::none)
        throw UsageError(
            at.info.place,
            fmt::format("kernel '{}': {} changes what a copy that is under way reads, started at {} ({}); {}",
                        launch_.program.name, describe(at), place_text(code_.accesses[other].place),
                        describe_thread(at),
                        code_.accesses[other].bulk ? "store to another tensor, or after the pipeline"
                                                   : "put wait_copies() between the two"));
}

/// From now on the copying thread has written, and others are to be ordered after it.
void AccessChecker::wait(std::uint32_t pending) {
    copies_.complete(pending, [&](const CopiesUnderWay::Range& r) {
        history_->complete(r.begin, r.end - r.begin, r.thread, r.access);
    });
}

void AccessChecker::check_bulk(const AccessInfo& info, const VectorAccess& access,
                               const std::int64_t* const* coordinates, int first_thread, const AccessInfo& mbarrier,
                               const std::int64_t* stage) {
    if (info.copy) {
        check_mbarrier(mbarrier, stage, first_thread, 1);
        counted_by_ = mbarrier_byte(mbarrier, *stage);
    }
    check(info, access, coordinates, first_thread);
    counted_by_ = CopiesUnderWay::none;
}

std::size_t AccessChecker::mbarrier_byte(const AccessInfo& info, std::int64_t stage) const {
    return static_cast<std::size_t>(launch_.program.shared[static_cast<std::size_t>(info.memory)].byte_offset +
                                    stage * mbarrier_bytes);
}

void AccessChecker::check_mbarrier(const AccessInfo& info, const std::int64_t* stage, int first_thread, int threads) {
    VectorAccess access{};
    access.offset = stage;
    access.count = 1;
    access.threads = static_cast<std::size_t>(threads);
    const std::array<const std::int64_t*, 1> coordinates{stage};
    check(info, access, coordinates.data(), first_thread);
}

void AccessChecker::start(const AccessInfo& info) {
    const std::int64_t count = launch_.program.shared[static_cast<std::size_t>(info.memory)].shape[0];
    for (std::int64_t stage = 0; stage < count; ++stage) check_mbarrier(info, &stage, 0, 1);
}

void AccessChecker::arrive(const AccessInfo& info, std::int64_t stage, int first_thread, int threads, bool completes) {
    Arrivals& a = arrivals_[mbarrier_byte(info, stage)];
    history_->release(a.gathered, first_thread, threads);
    if (completes) a.complete = a.gathered;
}

/// What was copied in the phase was written by the copying threads when they started, and they have arrived since.
void AccessChecker::pass(const AccessInfo& info, std::int64_t stage, int first_thread, int threads) {
    const std::size_t byte = mbarrier_byte(info, stage);
    history_->acquire(arrivals_[byte].complete, first_thread, threads);
    copies_.complete_counted_by(byte, [](const CopiesUnderWay::Range&) {});
}

void AccessChecker::endless_wait(const AccessInfo& info, std::int64_t stage, std::int64_t parity) const {
    throw UsageError(
        info.place,
        fmt::format("kernel '{}': the wait for {}[{}] to complete its phase of parity {} never ends: "
                    "nothing arrives there ({}); start the copies of a stage before it is waited for",
                    launch_.program.name, launch_.program.shared[static_cast<std::size_t>(info.memory)].name, stage,
                    parity, describe_block()));
}

void AccessChecker::fence(int first_thread, int threads) {
    std::erase_if(unfenced_,
                  [&](const Stored& s) { return s.thread >= first_thread && s.thread < first_thread + threads; });
    products_.fence(first_thread, threads, [&](std::size_t byte) {
        return copies_.meets(byte, ProductsUnderWay::piece) != CopiesUnderWay::none;
    });
}

void AccessChecker::check_fence(const Where& at) {
    if (!at.info.fenced && !(at.info.bulk && at.info.copy)) return;
    const auto begin = static_cast<std::size_t>(launch_.program.shared[at.memory()].byte_offset + at.byte_offset());
    const std::size_t end = begin + static_cast<std::size_t>(at.bytes());
    if (at.info.fenced) return unfenced_.push_back({begin, end, at.thread});
    for (const Stored& s : unfenced_)
        if (s.begin < end && begin < s.end)
            throw InternalError(
                fmt::format("{}: kernel '{}': a bulk copy writes where thread {} has stored, and no "
                            "fence stands between the two ({})",
                            place_text(at.info.place), launch_.program.name, s.thread, describe_thread(at)));
}

}  // namespace tessera::host

#include <algorithm>
#include <array>

#include "dsl/base/error.hpp"
#include "dsl/host/check_where.hpp"

// What the checks know of asynchronous copies: nobody touches what is under way, and mbarriers count.

namespace tessera::host {

namespace {
constexpr std::int64_t mbarrier_bytes = 8;
constexpr std::size_t first_warp = 32;
}  // namespace

void AccessChecker::check_copies(const Where& at) {
    const auto byte = static_cast<std::size_t>(launch_.program.shared[at.memory()].byte_offset + at.byte_offset());
    const auto bytes = static_cast<std::size_t>(at.bytes());
    if (const std::size_t other = copies_.meets(byte, bytes); other != CopiesUnderWay::none)
        throw UsageError(at.info.place,
                         fmt::format("kernel '{}': {} meets a copy that is under way, started at {} ({}); put "
                                     "wait_copies() between the two",
                                     launch_.program.name, describe(at), place_text(code_.accesses[other].place),
                                     describe_thread(at)));
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
        throw UsageError(at.info.place,
                         fmt::format("kernel '{}': {} changes what a copy that is under way reads, started at {} ({}); "
                                     "put wait_copies() between the two",
                                     launch_.program.name, describe(at), place_text(code_.accesses[other].place),
                                     describe_thread(at)));
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
        check_mbarrier(mbarrier, stage, 1);
        counted_by_ = mbarrier_byte(mbarrier, *stage);
    }
    check(info, access, coordinates, first_thread);
    counted_by_ = CopiesUnderWay::none;
}

std::size_t AccessChecker::mbarrier_byte(const AccessInfo& info, std::int64_t stage) const {
    return static_cast<std::size_t>(launch_.program.shared[static_cast<std::size_t>(info.memory)].byte_offset +
                                    stage * mbarrier_bytes);
}

void AccessChecker::check_mbarrier(const AccessInfo& info, const std::int64_t* stage, std::size_t threads) {
    VectorAccess access{};
    access.offset = stage;
    access.count = 1;
    access.threads = threads;
    const std::array<const std::int64_t*, 1> coordinates{stage};
    check(info, access, coordinates.data(), 0);
}

void AccessChecker::start(const AccessInfo& info) {
    const std::int64_t count = launch_.program.shared[static_cast<std::size_t>(info.memory)].shape[0];
    for (std::int64_t stage = 0; stage < count; ++stage) {
        check_mbarrier(info, &stage, 1);
        mbarriers_.start(mbarrier_byte(info, stage));
    }
}

void AccessChecker::arrive(const AccessInfo& info, const std::int64_t* stage) {
    check_mbarrier(info, stage, std::min(first_warp, static_cast<std::size_t>(launch_.program.threads)));
    mbarriers_.arrive(mbarrier_byte(info, *stage));
}

void AccessChecker::wait_phase(const AccessInfo& info, const std::int64_t* stage, std::int64_t parity) {
    check_mbarrier(info, stage, static_cast<std::size_t>(launch_.program.threads));
    const std::size_t byte = mbarrier_byte(info, *stage);
    if (!mbarriers_.complete(byte, static_cast<int>(parity)))
        throw UsageError(
            info.place,
            fmt::format("kernel '{}': the wait for {}[{}] to complete its phase of parity {} never ends: "
                        "nothing arrives there ({}); start the copies of a stage before it is waited for",
                        launch_.program.name, launch_.program.shared[static_cast<std::size_t>(info.memory)].name,
                        *stage, parity, describe_block()));
    copies_.complete_counted_by(
        byte, [&](const CopiesUnderWay::Range& r) { history_->publish(r.begin, r.end - r.begin, r.access); });
}

}  // namespace tessera::host

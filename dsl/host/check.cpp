#include "dsl/host/check.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/host/check_roles.hpp"
#include "dsl/host/check_where.hpp"
#include "dsl/ir/each_warp.hpp"

namespace tessera::host {

namespace {

/// The largest power of two that divides a number of bytes: what the address of a vector is a multiple of.
std::int64_t alignment_of(std::int64_t bytes) { return bytes & -bytes; }

/// Bytes that divide every access and its address.
std::size_t smallest_access(const ir::Program& program) {
    std::int64_t bytes = 8;
    for (const ir::SharedTile& tile : program.shared)
        bytes = std::min(bytes, alignment_of(bytes_of(tile.type, packed_elements_of(tile.type))));
    return static_cast<std::size_t>(bytes);
}

/// By warp: which warps meet others at barriers of their own. All of a block do that has nothing else.
std::vector<std::size_t> teams_of(const ir::Program& program) {
    std::vector<std::size_t> teams;
    if (ir::has_each_warp(program)) {
        for (int t = 0; t < program.threads; t += ir::threads_of_warp) teams.push_back(teams.size());
        return teams;
    }
    for (std::size_t r = 0; r < program.roles.size(); ++r)
        teams.insert(teams.end(), static_cast<std::size_t>(program.roles[r].warps), r);
    return teams;
}

template <class Numbers>
std::string list(const Numbers& numbers) {
    std::string text = "[";
    for (std::int64_t n : numbers) {
        if (text.size() > 1) text += ", ";
        text += std::to_string(n);
    }
    text += ']';
    return text;
}

const char* kind_of(const AccessInfo& info) { return info.add ? "addition" : info.store ? "store" : "load"; }

}  // namespace

AccessChecker::AccessChecker(const Launch& launch, const Code& code)
    : launch_(launch),
      code_(code),
      copies_(static_cast<std::size_t>(launch.program.shared_bytes)),
      products_(code.products.empty() ? 0 : static_cast<std::size_t>(launch.program.shared_bytes)) {
    const ir::Program& p = launch.program;
    by_roles_ = stored_by_roles(p);
    if (!p.shared.empty() || !p.roles.empty())
        history_.emplace(static_cast<std::size_t>(p.shared_bytes), smallest_access(p), p.threads, teams_of(p));
}

void AccessChecker::begin_block(std::int64_t block) {
    block_ = block;
    copies_.clear();
    arrivals_.clear();
    products_.clear();
    unfenced_.clear();
    stores_.clear();
    if (history_) history_->begin_block();
}

void AccessChecker::end_block() const {
    const CopiesUnderWay::Range* const copy = copies_.any();
    if (!copy) return;
    const AccessInfo& info = code_.accesses[copy->access];
    throw UsageError(info.place,
                     fmt::format("kernel '{}': a copy to {} is still under way when the block ends ({}); wait_copies() "
                                 "after the last copy_async, or ring.use for every ring.fill",
                                 launch_.program.name,
                                 launch_.program.shared[static_cast<std::size_t>(info.memory)].name, describe_block()));
}

void AccessChecker::barrier(int first_thread, int threads) {
    if (history_) history_->barrier(first_thread, threads);
}

void AccessChecker::check(const AccessInfo& info, const VectorAccess& access, const std::int64_t* const* coordinates,
                          int first_thread) {
    if (info.copied) sources_.assign(static_cast<std::size_t>(launch_.program.threads), {});
    for (std::size_t t = 0; t < access.threads; ++t) {
        if (access.predicate != nullptr && access.predicate[t] == 0) continue;
        const Where at{info, access, coordinates, t, first_thread + static_cast<int>(t)};
        check_bounds(at);
        check_offset(at);
        check_alignment(at);
        if (at.global())
            check_sources(at), check_roles(at);
        else
            check_copies(at), check_operands(at), check_fence(at), check_order(at);
    }
}

void AccessChecker::check_bounds(const Where& at) const {
    bool inside = true;
    for (int a = 0; a < at.info.coordinates; ++a) {
        const std::int64_t extent = at.global() ? launch_.tensors[at.memory()].extents[static_cast<std::size_t>(a)]
                                                : launch_.program.shared[at.memory()].shape[a];
        const std::int64_t c = at.coordinate(a);
        inside &= c >= 0 && c <= extent - at.extent_of(a);
    }
    if (inside) return;
    const std::string extents =
        at.global() ? list(launch_.tensors[at.memory()].extents) : list(launch_.program.shared[at.memory()].shape);
    throw UsageError(
        at.info.place,
        fmt::format("kernel '{}': {} lies outside of its extents {} ({}); mask the access or clip its range",
                    launch_.program.name, describe(at), extents, describe_thread(at)));
}

std::int64_t AccessChecker::expected_offset(const Where& at, int lane) const {
    const auto coordinate = [&](int a) { return at.coordinate(a) + (a == at.info.axis ? lane : 0); };
    std::int64_t offset = 0;
    if (at.global()) {
        const auto& axes = launch_.program.tensors[at.memory()].axes;
        const auto& strides = launch_.tensors[at.memory()].strides;
        for (int a = 0; a < at.info.coordinates; ++a) {
            const ir::Axis& axis = axes[static_cast<std::size_t>(a)];
            const std::int64_t c = coordinate(a);
            const std::int64_t stride = strides[static_cast<std::size_t>(a)];
            offset += axis.inner == 1 ? c * stride : c / axis.inner * stride + c % axis.inner * axis.inner_stride;
        }
        return offset;
    }
    const ir::SharedTile& tile = launch_.program.shared[at.memory()];
    for (int a = 0; a < at.info.coordinates; ++a) offset = offset * tile.shape[a] + coordinate(a);
    return tile.swizzle(offset);
}

/// Whether each next lane lies one element further by the axis alone, so that the first lane speaks for all.
bool AccessChecker::plain_lanes(const Where& at) const {
    const auto axis = static_cast<std::size_t>(at.info.axis);
    if (at.global())
        return launch_.program.tensors[at.memory()].axes[axis].inner == 1 &&
               launch_.tensors[at.memory()].strides[axis] == 1;
    const ir::SharedTile& tile = launch_.program.shared[at.memory()];
    return tile.swizzle.bits == 0 && at.info.axis == tile.shape.rank() - 1;
}

void AccessChecker::check_offset(const Where& at) const {
    const int lanes = at.info.lanes == 1 || plain_lanes(at) ? 1 : at.info.lanes;
    for (int lane = 0; lane < lanes; ++lane) {
        const std::int64_t expected = expected_offset(at, lane);
        if (expected == at.offset() + lane) continue;
        throw InternalError(
            fmt::format("{}: kernel '{}': {} goes to element offset {} where its coordinates (element {} of the "
                        "vector) say {} ({})",
                        place_text(at.info.place), launch_.program.name, describe(at), at.offset() + lane, lane,
                        expected, describe_thread(at)));
    }
}

void AccessChecker::check_alignment(const Where& at) const {
    const int packed = packed_elements_of(at.info.type);
    if (at.offset() % packed != 0)
        throw UsageError(at.info.place,
                         fmt::format("kernel '{}': {} begins at element {} of memory in which {} elements of {} share "
                                     "their bytes ({}); make its coordinates and the strides multiples of {}",
                                     launch_.program.name, describe(at), at.offset(), packed, name_of(at.info.type),
                                     describe_thread(at), packed));
    const std::int64_t alignment = at.info.bulk ? 16 : alignment_of(at.bytes());
    std::int64_t address = at.byte_offset();
    if (at.global()) {
        address += static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at.access.base));
    } else {
        address += launch_.program.shared[at.memory()].byte_offset;
    }
    const std::int64_t past = (address % alignment + alignment) % alignment;
    if (past == 0) return;
    throw UsageError(at.info.place,
                     fmt::format("kernel '{}': {} moves {} bytes at once from an address that is {} bytes past a "
                                 "multiple of {} ({}); align the base and the strides, or use narrower vectors",
                                 launch_.program.name, describe(at), at.bytes(), past, alignment, describe_thread(at)));
}

void AccessChecker::check_order(const Where& at) {
    using Verdict = SharedHistory::Verdict;
    const auto byte = static_cast<std::size_t>(launch_.program.shared[at.memory()].byte_offset + at.byte_offset());
    const auto bytes = static_cast<std::size_t>(at.bytes());
    const auto index = static_cast<std::size_t>(&at.info - code_.accesses.data());
    const auto found = at.info.add     ? history_->add(byte, bytes, at.thread, index)
                       : at.info.store ? history_->write(byte, bytes, at.thread, index)
                                       : history_->read(byte, bytes, at.thread, index);
    if (found.verdict == Verdict::fine) return;
    if (found.verdict == Verdict::unwritten)
        throw UsageError(at.info.place,
                         fmt::format("kernel '{}': {} reads shared memory that nothing has written in this block ({}); "
                                     "store to all of the tile before it is read",
                                     launch_.program.name, describe(at), describe_thread(at)));
    const AccessInfo& other = code_.accesses[found.other.access];
    throw UsageError(
        at.info.place,
        fmt::format(
            "kernel '{}': race on shared memory: {} by thread {} is not ordered after the {} of '{}' by thread {} "
            "at {} ({}); {}",
            launch_.program.name, describe(at), at.thread, kind_of(other),
            launch_.program.shared[static_cast<std::size_t>(other.memory)].name, found.other.thread,
            place_text(other.place), describe_block(), order_cure(at.info, at.thread, found.other)));
}

void AccessChecker::undefined_word(const UndefinedRead& read) const {
    throw UsageError(read.place,
                     fmt::format("kernel '{}': word {} of the register array '{}' is read before anything has been "
                                 "written to it ({}); give the value a start",
                                 launch_.program.name, read.word, read.array, describe_block()));
}

void AccessChecker::out_of_bounds(const Bound& bound, float a, float b, int thread) const {
    if (!bound.division)
        throw UsageError(
            bound.place,
            fmt::format(
                "kernel '{}': the bounded cast of {:.9g} to e2m1 leaves its range: magnitudes must be below 7{} "
                "({}, thread {}); scale the values or write a plain cast",
                launch_.program.name, a,
                std::fabs(a) < 7 ? ", and those of f16 have no more than eight significant bits" : "", describe_block(),
                thread));
    throw UsageError(bound.place,
                     fmt::format("kernel '{}': the bounded division of {:g} by {:g} leaves its range: b, |a| and "
                                 "|a / b| must lie in [2^-100, 2^100], or a be 0 ({}, thread {}); guard the "
                                 "operands or write a plain division",
                                 launch_.program.name, a, b, describe_block(), thread));
}

/// "the load from x[3, 8…15]"
std::string AccessChecker::describe(const Where& at) const {
    std::string text = at.info.add ? "the addition to " : at.info.store ? "the store to " : "the load from ";
    text += at.global() ? launch_.program.tensors[at.memory()].name : launch_.program.shared[at.memory()].name;
    text += '[';
    for (int a = 0; a < at.info.coordinates; ++a) {
        if (a > 0) text += ", ";
        text += std::to_string(at.coordinate(a));
        if (at.extent_of(a) > 1) text += "…" + std::to_string(at.coordinate(a) + at.extent_of(a) - 1);
    }
    return text + ']';
}

std::string AccessChecker::describe_thread(const Where& at) const {
    return fmt::format("{}, thread {}", describe_block(), at.thread);
}

/// "block [1, 3] of [4, 8]"
std::string AccessChecker::describe_block() const {
    std::vector<std::int64_t> index(launch_.grid.size());
    std::int64_t rest = block_;
    for (std::size_t a = index.size(); a-- > 0;) {
        index[a] = rest % launch_.grid[a];
        rest /= launch_.grid[a];
    }
    return fmt::format("block {} of {}", list(index), list(launch_.grid));
}

}  // namespace tessera::host

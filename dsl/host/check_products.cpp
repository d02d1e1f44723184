#include <algorithm>
#include <array>

#include "dsl/base/error.hpp"
#include "dsl/host/check_where.hpp"
#include "dsl/ir/tensor_core.hpp"

// What the checks know of tensor cores that read shared memory: their operands stay as they are until the wait, and
// what threads have written there is fenced.

namespace tessera::host {

namespace {
constexpr std::int64_t depth_bytes = 32;
}  // namespace

/// What is written to.
void AccessChecker::check_operands(const Where& at) {
    if (!at.info.store) return;
    const auto byte = static_cast<std::size_t>(launch_.program.shared[at.memory()].byte_offset + at.byte_offset());
    const auto bytes = static_cast<std::size_t>(at.bytes());
    if (const std::size_t reader = products_.reader(byte, bytes); reader != ProductsUnderWay::none)
        throw UsageError(at.info.place,
                         fmt::format("kernel '{}': {} changes what a product that is under way reads, started at {} "
                                     "({}); the wait for it is missing, which lowering puts where it is needed: please "
                                     "report this",
                                     launch_.program.name, describe(at), place_text(code_.accesses[reader].place),
                                     describe_thread(at)));
    products_.write(byte, bytes, at.info.bulk ? ProductsUnderWay::nobody : at.thread);
}

void AccessChecker::start_product(const AccessInfo& info, std::int64_t offset, int rows, int first_thread) {
    const ir::SharedTile& tile = launch_.program.shared[static_cast<std::size_t>(info.memory)];
    const std::int64_t columns = tile.shape.back(), row_bytes = ir::row_bytes(tile), per_row = row_bytes / depth_bytes;
    const std::int64_t depth = columns / per_row, last = offset + (rows - 1) * columns + depth;
    if (offset < 0 || last > tile.shape.count())
        throw UsageError(info.place,
                         fmt::format("kernel '{}': a product reads elements {} to {} of '{}', which has {} ({}, thread "
                                     "{}); clip what is picked of it",
                                     launch_.program.name, offset, last - 1, tile.name, tile.shape.count(),
                                     describe_block(), first_thread));
    require_internal(offset % depth == 0 && offset / columns % 8 == 0,
                     "an operand of a product begins within 8 rows or within 32 bytes");
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t half = 0; half < 2; ++half) {
            const std::int64_t element = tile.swizzle(offset + row * columns + half * depth / 2);
            read_for_product(static_cast<std::size_t>(tile.byte_offset + element * bits_of(tile.type) / 8), info,
                             first_thread);
        }
}

void AccessChecker::read_for_product(std::size_t byte, const AccessInfo& info, int first_thread) {
    const std::size_t index = static_cast<std::size_t>(&info - code_.accesses.data());
    const auto error = [&](const std::string& what) {
        throw UsageError(info.place,
                         fmt::format("kernel '{}': a product reads '{}', {} ({}, thread {})", launch_.program.name,
                                     launch_.program.shared[static_cast<std::size_t>(info.memory)].name, what,
                                     describe_block(), first_thread));
    };
    if (const std::size_t copy = copies_.meets(byte, ProductsUnderWay::piece); copy != CopiesUnderWay::none)
        error(fmt::format("which a copy that is under way writes, started at {}; {}",
                          place_text(code_.accesses[copy].place), copy_cure(code_.accesses[copy])));
    if (products_.unseen(byte))
        error(
            "which threads have written to without a fence for tensor cores, as lowering puts it ahead of barriers: "
            "please report this");
    products_.start({byte, index, first_thread});
    for (int warp = 0; warp < 4; ++warp) {
        const auto found = history_->read(byte, ProductsUnderWay::piece, first_thread + 32 * warp, index);
        if (found.verdict == SharedHistory::Verdict::unwritten)
            error("where nothing has been written in this block; store to all of the tile before");
        if (found.verdict != SharedHistory::Verdict::fine)
            error(fmt::format("not ordered after the store by thread {} at {}: a race; {}", found.other.thread,
                              place_text(code_.accesses[found.other.access].place),
                              order_cure(info, first_thread + 32 * warp, found.other)));
    }
}

/// Until now the warps among these threads have read.
void AccessChecker::wait_products(int first_thread, int threads) {
    products_.complete(first_thread, threads, [&](const ProductsUnderWay::Reading& r) {
        for (int warp = 0; warp < 4; ++warp)
            history_->read(r.byte, ProductsUnderWay::piece, r.first_thread + 32 * warp, r.access);
    });
}

}  // namespace tessera::host

#include "kernels/mhc/norm_plan.hpp"

#include <algorithm>

namespace tessera::mhc {

namespace {

constexpr std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The pieces, up to `most`, with which `tiles` · pieces blocks, one at a time on each multiprocessor, are done first.
/// Each has its share of `steps` and `extra` steps' worth of work of its own; of equals the fewest.
std::int64_t fastest(std::int64_t tiles, std::int64_t steps, std::int64_t extra, std::int64_t most,
                     std::int64_t multiprocessors) {
    std::int64_t best = 1, least = 0;
    for (std::int64_t pieces = 1; pieces <= most; ++pieces) {
        const std::int64_t rounds = up(tiles * pieces, multiprocessors), time = rounds * (up(steps, pieces) + extra);
        if (pieces == 1 || time < least) best = pieces, least = time;
    }
    return best;
}

}  // namespace

std::int64_t norm_splits(std::int64_t tokens, std::int64_t inner, std::int64_t multiprocessors) {
    constexpr std::int64_t extra = 4;  // until the pipeline is full
    const std::int64_t steps = up(inner, norm_product_step);
    return fastest(std::max<std::int64_t>(1, up(tokens, norm_product_rows)), steps, extra, std::min(steps, most_splits),
                   multiprocessors);
}

std::int64_t norm_parts(std::int64_t tokens, std::int64_t inner, std::int64_t multiprocessors) {
    // A part's gradient of fn is written and read again: as many bytes as two blocks of tokens.
    constexpr std::int64_t extra = 20, most = 64, blocks_at_once = 2;
    const std::int64_t steps = std::max<std::int64_t>(1, up(tokens, norm_backward_step));
    return fastest(up(inner, norm_backward_columns), steps, extra, std::min(steps, most),
                   blocks_at_once * multiprocessors);
}

}  // namespace tessera::mhc

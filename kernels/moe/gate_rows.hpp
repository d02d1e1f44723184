#pragma once

#include <cstdint>
#include <limits>

#include "dsl/front/kernel.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor_view.hpp"

// What the gates share: a warp takes a row of scores, which may fall into groups; and the checks of their arguments.

namespace tessera::moe {

inline constexpr std::int64_t most_experts = 1024, most_slots = 32;

/// How G groups of M scores lie over the lanes of a warp: as many lanes as there are groups, rounded up to a power of
/// two, the other lanes share a group. Group and member counts are rounded up to what that takes.
struct GroupTile {
    static constexpr std::int64_t rows = 4;  // a warp each
    static constexpr int threads = 128;
    std::int64_t groups, members;
    int lanes;  // of one group
};
GroupTile group_tile(std::int64_t groups, std::int64_t members);

/// A block's rows of scores; what lies outside of the tensor is NaN, which no selection takes before anything else.
template <int R>
Value<f32, R> load_scores(const Piece<f32, R>& piece, const GroupTile& tile,
                          std::source_location at = std::source_location::current()) {
    Shape one;
    for (int i = 0; i < R; ++i) one.push_back(1);
    return load(piece, Value<f32, 0>(std::numeric_limits<double>::quiet_NaN(), at),
                {.per_thread = one, .lanes = tile.lanes}, at);
}

/// The sum of the `best` (1 or 2) largest members of each group, along axis 2, which stays with extent 1. NaN is passed
/// over; a sum that is NaN counts as −∞.
Value<f32, 3> sum_of_best(const Value<f32, 3>& scores, int best);

/// Errors: UsageError unless the view is dense, of this element and rank, and on the stream's device.
void check_tensor(const char* function, const char* name, const Stream& stream, const TensorView& x, Element element,
                  int rank);

}  // namespace tessera::moe

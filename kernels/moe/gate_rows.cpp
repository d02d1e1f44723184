#include "kernels/moe/gate_rows.hpp"

#include <bit>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/moe/rows.hpp"

namespace tessera::moe {

GroupTile group_tile(std::int64_t groups, std::int64_t members) {
    const auto wide = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(groups)));
    const auto lanes = static_cast<int>(32 / wide);
    return {wide, align_up(members, lanes), lanes};
}

Value<f32, 3> sum_of_best(const Value<f32, 3>& scores, int best) {
    constexpr double least = -std::numeric_limits<double>::infinity();
    const auto first = reduce_max(scores, axis<2>);
    if (best == 1) return first;
    const auto is_first = scores == first;
    const auto times = reduce_sum(cast<i32>(is_first), axis<2>);
    const auto rest = reduce_max(select(~is_first, scores, Value<f32, 0>(least)), axis<2>);
    const auto sum = first + select(times > 1, first, rest);
    return select(sum == sum, sum, Value<f32, 0>(least));
}

void check_tensor(const char* function, const char* name, const Stream& stream, const TensorView& x, Element element,
                  int rank) {
    if (x.rank() != rank)
        throw UsageError(fmt::format("{}: {} has rank {} (extents {}), but must be {} of rank {}", function, name,
                                     x.rank(), text_of(x.extents), name_of(element), rank));
    check_dense(function, name, stream, x, element, x.extents);
}

}  // namespace tessera::moe

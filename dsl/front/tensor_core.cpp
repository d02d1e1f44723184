#include "dsl/front/tensor_core.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/recorder.hpp"
#include "dsl/ir/tensor_core.hpp"

namespace tessera::detail {

Ref mma(Ref a, Ref b, Ref c, int warps, const Place& place) {
    Recorder& r = Recorder::active(place);
    for (Ref operand : {a, b, c}) r.require_open(operand, place);
    const int depth = ir::tensor_core_instruction(a->type)->depth;
    const std::int64_t m = a->shape[0], n = b->shape[0];
    if (a->shape[1] != b->shape[1] || c->shape != Shape{m, n})
        throw UsageError(place, fmt::format("mma of a {}, b {} and c {}: it needs a [M, K], b [N, K] and c [M, N]",
                                            text_of(a->shape), text_of(b->shape), text_of(c->shape)));
    if (m % ir::mma_rows != 0 || n % ir::mma_columns != 0 || a->shape[1] % depth != 0)
        throw UsageError(place, fmt::format("mma of a {} and b {} of {}: M must be a multiple of {}, N of {} and K of "
                                            "{}; take a larger tile, what lies outside of a tensor is loaded as 0",
                                            text_of(a->shape), text_of(b->shape), name_of(a->type), ir::mma_rows,
                                            ir::mma_columns, depth));
    if (warps < 0 || (warps & (warps - 1)) != 0)
        throw UsageError(place, fmt::format("mma over {} warps along M: a power of two, or 0", warps));
    // Twice the same tile: each operand has a layout of its own, so each is a node of its own.
    if (a == b) b = r.bind(b->type, b->shape, place, ir::Reshape{b});
    return r.bind(f32, c->shape, place, ir::Mma{a, b, c, warps});
}

}  // namespace tessera::detail

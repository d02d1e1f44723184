#pragma once

#include "dsl/front/value.hpp"

// Products on the tensor cores.

namespace tessera {

namespace detail {
template <Element T>
inline constexpr bool has_tensor_core = T == tf32 || T == bf16 || T == f16 || T == e4m3;
Ref mma(Ref a, Ref b, Ref c, int warps, const Place& place);
}  // namespace detail

/// warps: how many of the block's warps share the rows of a, a power of two; the others share those of b. 0: one for
/// every 16 rows of a, as far as there are.
struct MmaOptions {
    int warps = 0;
};

/// c + a · bᵀ in f32: a [M, K], b [N, K], c [M, N], with M a multiple of 16, N of 8, and K of 8 (tf32), 16 (bf16, f16)
/// or 32 (e4m3). Products are exact. Sums are made over 8 to 32 of them at a time, in an order and with a rounding of
/// the device's own: each of these sums is off by a few units in the last place of its largest term. The host rounds
/// each once. NaN and infinities come through.
///
/// The operands lie as the instruction wants them: what is loaded for a product is loaded so (a thread has up to 8
/// neighbours along K), and what lies otherwise is converted by way of shared memory. The result: see show.
/// Errors: UsageError for other extents, and where the block's warps do not divide the result.
template <Element T>
Value<f32, 2> mma(const Value<T, 2>& a, const Value<T, 2>& b, const Value<f32, 2>& c, const MmaOptions& options = {},
                  std::source_location at = std::source_location::current()) {
    static_assert(detail::has_tensor_core<T>,
                  "tessera: tensor cores multiply tf32, bf16, f16 or e4m3; cast the operands to one of them");
    return Value<f32, 2>(detail::mma(a.node(at), b.node(at), c.node(at), options.warps, at));
}

}  // namespace tessera

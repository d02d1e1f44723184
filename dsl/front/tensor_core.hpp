#pragma once

#include <bit>

#include "dsl/front/memory.hpp"
#include "dsl/front/value.hpp"

// Products on the tensor cores.

namespace tessera {

namespace detail {
template <Element T>
inline constexpr bool has_tensor_core = T == tf32 || T == bf16 || T == f16 || T == e4m3;

/// A tile, or a piece of a shared tile.
struct MmaOperand {
    Ref tile = nullptr;
    const ViewSpec* piece = nullptr;
};
Ref mma(const MmaOperand& a, const MmaOperand& b, Ref c, int warps, const Place& place);
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
    return Value<f32, 2>(detail::mma({a.node(at)}, {b.node(at)}, c.node(at), options.warps, at));
}

/// The same with b, or both operands, in shared memory: the tensor cores read the pieces where they lie as far as the
/// device has such instructions (wgmma of SM90; four warps have 64 rows), else they are loaded. A piece is [rows, K],
/// or [K / W, rows, W] where K is cut into parts of W. It takes whole rows of W, the last axis of its tile, which have
/// 32, 64 or 128 bytes and the swizzle operand_swizzle<T>(W), and begins at a multiple of 8 rows. M is a multiple of
/// 64, N at most 256 for four warps, and the block has a multiple of four warps. Read now: what is written to the tile
/// later does not change the result. Sums of e4m3 keep some 13 bits on SM90. Errors: UsageError for other extents, and
/// for a piece or tile that does not fit.
template <Element T, int R>
Value<f32, 2> mma(const std::type_identity_t<Value<T, 2>>& a, const Piece<T, R>& b, const Value<f32, 2>& c,
                  const MmaOptions& options = {}, std::source_location at = std::source_location::current()) {
    static_assert(detail::has_tensor_core<T>,
                  "tessera: tensor cores multiply tf32, bf16, f16 or e4m3; load the piece and cast it to one of them");
    static_assert(R == 2 || R == 3, "tessera: a piece for a product is [rows, K] or [K / W, rows, W]");
    return Value<f32, 2>(detail::mma({a.node(at)}, {nullptr, &b.spec()}, c.node(at), options.warps, at));
}
template <Element T, int S, int R>
Value<f32, 2> mma(const Piece<T, S>& a, const Piece<T, R>& b, const Value<f32, 2>& c, const MmaOptions& options = {},
                  std::source_location at = std::source_location::current()) {
    static_assert(
        detail::has_tensor_core<T>,
        "tessera: tensor cores multiply tf32, bf16, f16 or e4m3; load the pieces and cast them to one of them");
    static_assert((R == 2 || R == 3) && (S == 2 || S == 3),
                  "tessera: a piece for a product is [rows, K] or [K / W, rows, W]");
    return Value<f32, 2>(detail::mma({nullptr, &a.spec()}, {nullptr, &b.spec()}, c.node(at), options.warps, at));
}

/// The swizzle of a shared tile whose pieces are operands of products; `columns`: extent of its last axis, of 32, 64 or
/// 128 bytes.
template <Element T>
constexpr SwizzleOptions operand_swizzle(std::int64_t columns) {
    const auto bytes = static_cast<unsigned>(columns * bits_of(T) / 8);
    return {.bits = std::countr_zero(bytes) - 4, .base = std::countr_zero(128u / bits_of(T)), .shift = 3};
}

}  // namespace tessera

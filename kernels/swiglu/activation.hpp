#pragma once

#include <limits>

#include "dsl/front/kernel.hpp"

// What forward and backward share inside kernels.

namespace tessera::swiglu {

/// A tile [rows, columns] as [rows, vectors of a thread, threads of a row, elements of a vector].
template <Element T>
Value<T, 4> by_threads(const Value<T, 2>& tile, std::int64_t threads, std::int64_t vector) {
    return tile.split(axis<1>, threads * vector).split(axis<2>, vector);
}

/// Values within a clamp, and where they were beyond it. NaN is never beyond.
template <int R>
struct Cut {
    Value<f32, R> value;
    Value<boolean, R> beyond;
};
/// At most c.
template <int R>
Cut<R> cut_above(const Value<f32, R>& v, const Value<f32, 0>& c) {
    return {min_nan(v, c), v > c};
}
/// Between −c and c > 0.
template <int R>
Cut<R> cut_both(const Value<f32, R>& v, const Value<f32, 0>& c) {
    return {max_nan(min_nan(v, c), -c), abs(v) > c};
}

/// d = 1 + e^(−v), ready to divide by with IEEE's bits and without IEEE's branch. From 2⁶³ on d is scaled down by 2⁻⁶⁴,
/// and quotients after it, so that bounded division may be used: it covers every |v| / d, since d is exactly 1 or 2
/// where v is very large or small. (The last bit of 1 / d may differ where that is subnormal, v < −87.3.)
template <int R>
class Divisor {
public:
    explicit Divisor(const Value<f32, R>& v) : d_(exp(-v) + 1.0f), large_(d_ > 0x1p63f), scaled_(scaled()) {}

    /// v / d, for that v; NaN if it is infinite.
    Value<f32, R> divide(const Value<f32, R>& v) const { return restored(divide_bounded(v, scaled_)); }
    /// 1 / d
    Value<f32, R> inverse() const { return restored(divide_bounded(1.0f, scaled_)); }

private:
    static constexpr float largest = std::numeric_limits<float>::max();
    Value<f32, R> scaled() const { return select(~large_, d_, min(d_, largest) * 0x1p-64f); }
    Value<f32, R> restored(const Value<f32, R>& quotient) const {
        const auto down = select(d_ > largest, Value<f32, 0>(0.0f), Value<f32, 0>(0x1p-64f));
        return select(~large_, quotient, quotient * down);
    }
    Value<f32, R> d_;
    Value<boolean, R> large_;
    Value<f32, R> scaled_;
};

/// v / (1 + e^(−v))
template <int R>
Value<f32, R> silu(const Value<f32, R>& v) {
    return v / (exp(-v) + 1.0f);
}

/// No element of the row tile is below −60; NaN may be among them. Then 1 + e^(−v) is at most 2⁸⁷, and v / (1 + e^(−v))
/// a bounded division: where v is huge or tiny the divisor is exactly 1 or 2.
constexpr float least_bounded = -60.0f;
template <Element T>
Value<boolean, 0> is_bounded(const Value<T, 2>& v) {
    return cast<f32>(reduce_min(v, axis<1>).squeeze(axis<1>).squeeze(axis<0>)) >= least_bounded;
}
/// The same of what each warp holds of rows: `threads` threads hold vectors of a row in turn.
template <Element T>
WarpTruth is_bounded_by_warps(const Value<T, 2>& v, std::int64_t threads, std::int64_t vector) {
    const auto vectors = by_threads(v, threads, vector);
    const auto least = vectors.extent(1) == 1 ? vectors : reduce_min(vectors, axis<1>);
    return warp_all(cast<f32>(reduce_min(least, axis<3>)) >= least_bounded);
}
/// silu of what is bounded.
template <int R>
Value<f32, R> bounded_silu(const Value<f32, R>& v) {
    return divide_bounded(v, exp(-v) + 1.0f);
}

}  // namespace tessera::swiglu

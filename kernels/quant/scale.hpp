#pragma once

#include "dsl/front/kernel.hpp"
#include "kernels/fitted_view.hpp"
#include "kernels/quant.hpp"

// Scale factors inside kernels: from absolute maxima, and out to memory in one of the three layouts.

namespace tessera::quant {

/// What one output format asks of its scales.
struct FormatLimits {
    float largest;   // of the format
    float amax_min;  // lower clamp of amax: no block of zeros divides by zero
};
constexpr FormatLimits limits_of(Element format) {
    switch (format) {
        case Element::e2m1: return {6.0f, 0x1.8p-124f};  // 6 · 2⁻¹²⁶
        case Element::e5m6: return {65024.0f, 1e-4f};
        default: return {448.0f, 1e-4f};
    }
}

template <int R>
struct Scales {
    Value<f32, R> sf;        // dequantization factor
    Value<f32, R> inv;       // what values are multiplied with
    Value<u32, R> exponent;  // biased; of rounded scales only
};

/// c / largest and largest / c for c ≥ 2⁻²⁷ and 4 ≤ largest ≤ 448 (below 4 an inverse may be subnormal, and would be
/// rounded twice), with IEEE's bits and without its branches. The scaled c lies where bounded division may be used, an
/// infinite one at a number whose quotients become ∞ and 0 again.
template <int R>
Scales<R> unrounded_scales(const Value<f32, R>& c, float largest) {
    const auto d = min(c * 0x1p-64f, 0x1p95f);
    const auto sf = divide_bounded(d, largest) * 0x1p64f;
    return {sf, divide_bounded(largest, d) * 0x1p-64f, bitcast<u32>(sf)};
}

/// sf and inv of blocks with these absolute maxima. round: sf is the least power of two ≥ amax / largest, found on the
/// bits.
template <int R>
Scales<R> scales_of(const Value<f32, R>& amax, FormatLimits limits, bool round) {
    const auto c = max(amax, limits.amax_min);
    // For 448 and 6 the product rounds up to the same power of two as the quotient, over all mantissas of c; for 65024
    // one mantissa differs.
    if (!round && limits.largest <= 448.0f && limits.amax_min >= 0x1p-27f) return unrounded_scales(c, limits.largest);
    const bool multiply = round && limits.largest != 65024.0f;
    const auto s = multiply ? c * (1.0f / limits.largest) : c / limits.largest;
    if (!round) return {s, limits.largest / c, bitcast<u32>(s)};
    const auto e = ((bitcast<u32>(s) - 1u) >> 23u) + 1u;
    // An infinite amax has e = 255: then inv is 0, not the −∞ that 254 − e would spell.
    return {bitcast<f32>(e << 23u), bitcast<f32>((254u - min(e, 254u)) << 23u), e};
}

/// Scales of extents [rows, 1] side by side as [rows, groups].
inline Scales<2> spread(const Scales<2>& s, const std::int64_t (&extents)[2]) {
    const auto wide = full(extents, Value<u32, 0>(0u));
    return {s.sf, s.inv, s.exponent | wide};
}

/// The tensor parameter "sf" for blocks × groups scales, padding included, and how tiles of scales are stored to it.
class ScaleOutput {
public:
    /// blocks: M, known at launch. groups: K.
    ScaleOutput(Kernel& k, ScaleLayout layout, const Index& blocks, std::int64_t groups);

    /// Rows and groups that must be covered by the grid.
    Index rows() const { return layout_ == ScaleLayout::row_major ? blocks_ : align_up(blocks_, 4); }
    std::int64_t groups() const { return layout_ == ScaleLayout::packed_ue8m0 ? align_up(groups_, 4) : groups_; }

    /// Stores a tile of scales whose first is block (m, g) in units of the tile; padding is written 0.
    void store(const Scales<2>& scales, const std::int64_t (&tile)[2], const Index& m, const Index& g) const;
    /// Stores all scales [rows, groups()] of these rows, which need not be neighbours; past rows() nothing is written.
    void store_rows(const Scales<2>& scales, const Value<i64, 1>& rows) const;
    /// Stores all scales [1, groups] of row m, which need not fill whole words, and the padding past them.
    void store_row(const Scales<2>& scales, const Index& m) const;

private:
    ScaleLayout layout_;
    Index blocks_;
    std::int64_t groups_;
    Global<f32, 2> numbers_{detail::ViewSpec{}};
    Global<ue8m0, 2> bytes_{detail::ViewSpec{}};
};

/// Scales of one call, on the host side.
struct ScaleShape {
    ScaleLayout layout;
    std::int64_t blocks, groups;
    std::int64_t padded() const { return align_up(blocks, 4); }
};
Tensor empty_scales(const Stream& stream, const ScaleShape& shape);
/// Codes of these extents and their scales, in one piece of memory.
Quantized empty_quantized(const Stream& stream, Element format, const Shape& extents, const ScaleShape& shape);
/// Errors: UsageError unless the tensor can take the scales.
void check_scales(const char* function, const TensorView& sf, const ScaleShape& shape);
/// A checked sf with its padding, as the kernel's parameter takes it.
FittedView scales_for_kernel(const TensorView& sf, const ScaleShape& shape);

}  // namespace tessera::quant

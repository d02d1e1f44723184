#pragma once

#include "kernels/quant/scale.hpp"
#include "runtime/compiled_kernel.hpp"

// What the casts to narrow formats share on the host side.

namespace tessera::quant {

/// Errors: UsageError unless x is a BF16 or FP32 matrix with inner stride 1 and a row stride ≥ 0, on the stream's
/// device.
void check_input(const char* function, const Stream& stream, const TensorView& x);
/// Errors: UsageError unless `data` is a dense matrix of x's extents in this format.
void check_codes(const char* function, const TensorView& data, Element format, const TensorView& x);
/// Errors: UsageError unless rows of `hidden` values of the format end at a byte.
void check_whole_bytes(const char* function, Element format, std::int64_t hidden);

/// Bytes that an element, or the word that packed ones are moved in, is aligned to.
constexpr int least_align(Element e) { return e == Element::e5m6 ? 4 : (bits_of(e) + 7) / 8; }

/// Vectors are 16 bytes; e5m6 goes in groups of 8 values, three words each.
constexpr int vector_align(Element e) { return e == Element::e5m6 ? 4 : 16; }
constexpr int vector_elements(Element e) { return e == Element::e5m6 ? 8 : 128 / bits_of(e); }

/// Whether rows of x and the base of data begin where vectors of their elements may, so that these can be used.
bool rows_aligned(const TensorView& x, const TensorView& data);

/// Starts a cast on checked arguments. data: null if nothing but scales is written.
void launch_cast(const CompiledKernel& kernel, const Stream& stream, const TensorView& x, const TensorView* data,
                 const TensorView& sf, const ScaleShape& shape);

/// Starts a kernel whose input comes with scales, on checked arguments: tensors x and out, x_sf, then sf if there is
/// one.
void launch_scaled(const CompiledKernel& kernel, const Stream& stream, const QuantizedView& x, const TensorView& out,
                   const TensorView* sf = nullptr, const ScaleShape* shape = nullptr);

/// Scales are powers of two.
constexpr bool rounds(ScaleLayout layout, bool round_sf) { return round_sf || layout == ScaleLayout::packed_ue8m0; }

/// The parameters "x" and, if codes or values are written, "y" of a cast kernel, aligned or not.
template <Element In, Element Out>
struct CastTensors {
    Dim tokens;
    Global<In, 2> x;
    Global<Out, 2> y;
    CastTensors(Kernel& k, std::int64_t hidden, bool aligned, bool writes = true)
        : tokens(k.dim("tokens")), x(detail::ViewSpec{}), y(detail::ViewSpec{}) {
        const Dim pitch = k.dim("x_pitch", multiple_of(aligned ? vector_elements(In) : packed_elements_of(In)));
        const auto align = [=](Element e) { return aligned ? vector_align(e) : least_align(e); };
        x = k.input<In>("x", {tokens, hidden}, {.align = align(In), .strides = {pitch, 1}});
        if (writes) y = k.output<Out>("y", {tokens, hidden}, {.align = align(Out)});
    }
};

/// Codes of values that lie within the format's range but for rounding, or are NaN.
template <Element Out, Element T, int R>
Value<Out, R> codes_in_range(const Value<T, R>& y) {
    if constexpr (Out == e2m1)
        return cast_bounded<Out>(y);
    else
        return cast<Out>(y);
}

/// y = v · inv as codes, where inv is that of the largest of these v. With inv a power of two and v in BF16 the product
/// is exact in BF16, two at a time.
template <Element Out, int R>
Value<Out, R> encode(const Value<bf16, R>& v, const Value<f32, R>& inv, bool power_of_two) {
    if (Out == e2m1 && power_of_two) return codes_in_range<Out>(v * cast<bf16>(inv));
    return codes_in_range<Out>(cast<f32>(v) * inv);
}
template <Element Out, int R>
Value<Out, R> encode(const Value<f32, R>& v, const Value<f32, R>& inv, bool) {
    return codes_in_range<Out>(v * inv);
}

}  // namespace tessera::quant

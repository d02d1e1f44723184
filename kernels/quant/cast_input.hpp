#pragma once

#include "kernels/quant/scale.hpp"
#include "runtime/compiled_kernel.hpp"

// What the casts to narrow formats share on the host side.

namespace tessera::quant {

/// Errors: UsageError unless x is a BF16 or FP32 matrix with inner stride 1 and a row stride ≥ 0, on the stream's
/// device.
void check_input(const char* function, const Stream& stream, const TensorView& x);
/// Errors: UsageError unless `data` is a dense E4M3 matrix of x's extents.
void check_codes(const char* function, const TensorView& data, const TensorView& x);
/// Errors: UsageError for a format that has no kernel, or packed scales of a format without.
void check_format(const char* function, Element format);

/// Whether rows of x and data begin at multiples of 16 bytes of x, so that vectors can be used.
bool rows_aligned(const TensorView& x, const TensorView& data);

/// Starts a cast on checked arguments.
void launch_cast(const CompiledKernel& kernel, const Stream& stream, const TensorView& x, const TensorView& data,
                 const TensorView& sf, const ScaleShape& shape);

/// Scales are powers of two.
constexpr bool rounds(ScaleLayout layout, bool round_sf) { return round_sf || layout == ScaleLayout::packed_ue8m0; }

/// The parameters "x" and "y" of a cast kernel, aligned or not.
template <Element In>
struct CastTensors {
    Dim tokens;
    Global<In, 2> x;
    Global<e4m3, 2> y;
    CastTensors(Kernel& k, std::int64_t hidden, bool aligned)
        : tokens(k.dim("tokens")), x(detail::ViewSpec{}), y(detail::ViewSpec{}) {
        constexpr int bytes = bits_of(In) / 8;
        const Dim pitch = k.dim("x_pitch", multiple_of(aligned ? 16 / bytes : 1));
        x = k.input<In>("x", {tokens, hidden}, {.align = aligned ? 16 : bytes, .strides = {pitch, 1}});
        y = k.output<e4m3>("y", {tokens, hidden}, {.align = aligned ? 16 : 1});
    }
};

}  // namespace tessera::quant

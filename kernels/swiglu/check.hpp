#pragma once

#include "kernels/quant/scale.hpp"
#include "kernels/swiglu.hpp"
#include "runtime/compiled_kernel.hpp"

// The host side of the SwiGLU kernels: arguments are checked before anything is allocated or launched.

namespace tessera::swiglu {

/// What a checked forward call comes to.
struct ForwardArguments {
    std::int64_t tokens, hidden;
    TensorView x;  // (2, tokens, hidden): the halves of the rows
    quant::ScaleShape scales;
    ForwardShape shape;
};

/// Errors: UsageError.
void check_forward_options(Element in, std::int64_t hidden, const ForwardOptions& options);
ForwardArguments check_forward(const Stream& stream, const TensorView& x, const ForwardOptions& options,
                               const ForwardMaps& maps);
void check_forward_outputs(const ForwardArguments& a, const TensorView& data, const TensorView& sf,
                           const Stream& stream);

void launch_forward(const CompiledKernel& kernel, const Stream& stream, const ForwardArguments& a,
                    const TensorView& data, const TensorView& sf, const ForwardOptions& options,
                    const ForwardMaps& maps);

/// What a checked backward call comes to.
struct BackwardArguments {
    std::int64_t tokens, hidden, groups;  // groups of one half
    Shape slots;                          // of weight
};

/// Errors: UsageError.
void check_backward_options(std::int64_t hidden, const BackwardOptions& options);
BackwardArguments check_backward(const Stream& stream, const BackwardInputs& inputs, const BackwardOptions& options);
void check_backward_outputs(const BackwardArguments& a, const BackwardOutputs<TensorView>& outputs,
                            const Stream& stream);

/// A dense (rows, 2 · columns) tensor as (2, rows, columns).
TensorView halves(const TensorView& t, std::int64_t rows, std::int64_t columns);
/// All elements of a dense tensor in one axis.
TensorView flat(const TensorView& t);

}  // namespace tessera::swiglu

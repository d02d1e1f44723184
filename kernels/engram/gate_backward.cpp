#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/engram/check.hpp"
#include "kernels/engram/gate_backward_program.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::engram {

namespace {

constexpr const char* name = "engram_gate_bwd";

GateShape check(const Stream& stream, const BackwardInputs& in, const BackwardOptions& o) {
    const GateShape shape = check_gate(name, stream, in.forward);
    check_dense(name, "grad_out", stream, in.grad_out, bf16, shape.rows());
    check_dense(name, "dot", stream, in.dot, f32, shape.scores());
    check_dense(name, "gate_score", stream, in.gate_score, f32, shape.scores());
    check_dense(name, "rstd_x", stream, in.rstd_x, f32, shape.scores());
    check_dense(name, "rstd_k", stream, in.rstd_k, f32, shape.scores());
    check_clamp(name, o.clamp_value);
    constexpr std::int64_t most = 65536;
    if (o.blocks < 0 || o.blocks > most)
        throw UsageError(fmt::format("{}: blocks is {}; it is from 1 to {}, or 0 for one block on each multiprocessor",
                                     name, o.blocks, most));
    return shape;
}

void launch(const Stream& stream, const GateShape& shape, const BackwardInputs& in, const BackwardOutputViews& out,
            const BackwardOptions& o) {
    const TensorView k = with_strides(in.forward.k), v = with_strides(in.forward.v);
    const bool aligned = rows_at_16_bytes({&in.forward.hidden_states, &k, &v, &in.forward.weight_fused, &in.grad_out,
                                           &out.grad_hidden_states, &out.grad_k, &out.grad_v, &out.grad_w_partial});
    const CompiledKernel& kernel =
        Engine::of(stream).kernel(stream, KernelId(name, {shape.heads, shape.hidden, aligned}),
                                  [&] { return gate_backward_program(shape.heads, shape.hidden, aligned); });
    kernel.launch(stream,
                  {in.forward.hidden_states, k, v, in.forward.weight_fused, in.grad_out, in.dot, in.gate_score,
                   in.rstd_x, in.rstd_k, out.grad_hidden_states, out.grad_k, out.grad_v, out.grad_w_partial},
                  {Scalar("clamp_value", o.clamp_value)});
}

}  // namespace

Program gate_backward_program(std::int64_t heads, std::int64_t hidden, bool aligned) {
    return record(name, [=](Kernel& k) {
        if (are_few_heads(heads, hidden, aligned))
            record_few_heads(k, heads, hidden);
        else
            record_any_heads(k, heads, hidden, aligned);
    });
}

void gate_backward(const Stream& stream, const BackwardInputs& inputs, const BackwardOutputViews& outputs,
                   const BackwardOptions& options) {
    const GateShape shape = check(stream, inputs, options);
    check_dense(name, "grad_hidden_states", stream, outputs.grad_hidden_states, bf16, shape.rows());
    check_dense(name, "grad_k", stream, outputs.grad_k, bf16, shape.rows());
    check_dense(name, "grad_v", stream, outputs.grad_v, bf16, {shape.tokens, shape.hidden});
    check_kind(name, "grad_w_partial", stream, outputs.grad_w_partial, f32, 3);
    const std::int64_t rows = outputs.grad_w_partial.extents[0];
    if (rows < 1 || (options.blocks != 0 && options.blocks != rows))
        throw UsageError(fmt::format("{}: grad_w_partial has extents {}, but a row for each of {} blocks is needed",
                                     name, text_of(outputs.grad_w_partial.extents),
                                     std::max<std::int64_t>(1, options.blocks)));
    check_dense(name, "grad_w_partial", stream, outputs.grad_w_partial, f32, {rows, shape.heads, shape.hidden});
    launch(stream, shape, inputs, outputs, options);
}

BackwardOutputs gate_backward(const Stream& stream, const BackwardInputs& inputs, const BackwardOptions& options) {
    const GateShape shape = check(stream, inputs, options);
    const std::int64_t rows = options.blocks != 0 ? options.blocks : stream.device().target().multiprocessors;
    BackwardOutputs out{Tensor::empty(stream, bf16, shape.rows()), Tensor::empty(stream, bf16, shape.rows()),
                        Tensor::empty(stream, bf16, {shape.tokens, shape.hidden}),
                        Tensor::empty(stream, f32, {rows, shape.heads, shape.hidden})};
    launch(stream, shape, inputs, {out.grad_hidden_states, out.grad_k, out.grad_v, out.grad_w_partial}, options);
    return out;
}

}  // namespace tessera::engram

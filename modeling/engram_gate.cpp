#include "modeling/engram_gate.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::modeling {

namespace {

constexpr const char* name = "EngramGate";

/// All but the last `kept` axes as one. Axes of extent 1 have no stride of their own.
TensorView merge_leading(const char* tensor, const TensorView& x, int kept) {
    if (x.rank() < kept + 1)
        throw UsageError(
            fmt::format("{}: {} has extents {}; it has at least {} axes", name, tensor, text_of(x.extents), kept + 1));
    TensorView result = x;
    std::int64_t count = 1, stride = 0;
    bool any = false;
    for (int axis = x.rank() - kept - 1; axis >= 0; --axis) {
        const std::int64_t extent = x.extents[axis];
        if (extent > 1 && any && x.count() > 0 && x.strides[axis] != stride * count)
            throw UsageError(fmt::format(
                "{}: {} has extents {} and strides {}; its leading axes do not merge into one: copy it first", name,
                tensor, text_of(x.extents), text_of(x.strides)));
        if (extent > 1 && !any) any = true, stride = x.strides[axis];
        count *= extent;
    }
    result.extents = {count}, result.strides = {any ? stride : x.count()};
    for (int axis = x.rank() - kept; axis < x.rank(); ++axis) {
        result.extents.push_back(x.extents[axis]);
        result.strides.push_back(x.strides[axis]);
    }
    return result;
}

bool same_leading(const Shape& x, const Shape& v) {
    if (x.rank() != v.rank() + 1) return false;
    for (int i = 0; i + 1 < v.rank(); ++i)
        if (x[i] != v[i]) return false;
    return x.back() == v.back();
}

/// The same memory under other extents.
Tensor reshaped(const Tensor& t, const Shape& extents) {
    return Tensor::adopt(TensorView::of(t.device(), t.data(), t.element(), extents), std::make_shared<Tensor>(t));
}

Shape without_heads(const Shape& shape) {
    Shape result;
    for (int i = 0; i < shape.rank(); ++i)
        if (i != shape.rank() - 2) result.push_back(shape[i]);
    return result;
}

}  // namespace

EngramGate::EngramGate(const Stream& stream, const Tensor& weight_hidden, const Tensor& weight_embed,
                       const EngramGateOptions& options)
    : weight_hidden_(weight_hidden), weight_embed_(weight_embed), options_(options) {
    const auto fits = [&](const Tensor& w) {
        return w.element() == bf16 && w.extents().rank() == 2 && w.extents() == weight_hidden.extents() &&
               w.count() > 0;
    };
    if (!fits(weight_hidden) || !fits(weight_embed))
        throw UsageError(fmt::format("{}: the weights are {} {} and {} {}; both are bf16 (heads, channels)", name,
                                     name_of(weight_hidden.element()), text_of(weight_hidden.extents()),
                                     name_of(weight_embed.element()), text_of(weight_embed.extents())));
    grad_hidden_ = Tensor::zeros(stream, f32, weight_hidden.extents());
    grad_embed_ = Tensor::zeros(stream, f32, weight_hidden.extents());
}

engram::GateInputs EngramGate::merged(const TensorView& hidden_states, const TensorView& k, const TensorView& v) const {
    if (!(k.extents == hidden_states.extents) || !same_leading(hidden_states.extents, v.extents))
        throw UsageError(
            fmt::format("{}: hidden_states has extents {}, k {} and v {}; hidden_states and k have the same, v those "
                        "without the heads",
                        name, text_of(hidden_states.extents), text_of(k.extents), text_of(v.extents)));
    return {merge_leading("hidden_states", hidden_states, 2), merge_leading("k", k, 2), merge_leading("v", v, 1), {}};
}

Tensor EngramGate::forward(const Stream& stream, const TensorView& hidden_states, const TensorView& k,
                           const TensorView& v) const {
    engram::GateInputs inputs = merged(hidden_states, k, v);
    const Tensor fused = engram::fused_weight(stream, weight_hidden_, weight_embed_);
    inputs.weight_fused = fused;
    return reshaped(engram::gate_forward(stream, inputs, {options_.eps, options_.clamp_value, false}).output,
                    hidden_states.extents);
}

Tensor EngramGate::forward(const Stream& stream, const TensorView& hidden_states, const TensorView& k,
                           const TensorView& v, Saved& saved) const {
    saved.inputs = merged(hidden_states, k, v);
    saved.shape = hidden_states.extents;
    saved.weight_fused = engram::fused_weight(stream, weight_hidden_, weight_embed_);
    saved.inputs.weight_fused = saved.weight_fused;
    saved.scores = engram::gate_forward(stream, saved.inputs, {options_.eps, options_.clamp_value, true});
    const Tensor output = saved.scores.output;
    saved.scores.output = Tensor();  // the backward does not need it
    return reshaped(output, saved.shape);
}

EngramGate::Gradients EngramGate::backward(const Stream& stream, const TensorView& grad_output, const Saved& saved) {
    if (!(grad_output.extents == saved.shape))
        throw UsageError(fmt::format("{}: grad_output has extents {}, but the forward's output has {}", name,
                                     text_of(grad_output.extents), text_of(saved.shape)));
    const engram::BackwardOutputs g =
        engram::gate_backward(stream,
                              {merge_leading("grad_output", grad_output, 2), saved.inputs, saved.scores.dot,
                               saved.scores.gate_score, saved.scores.rstd_x, saved.scores.rstd_k},
                              {options_.clamp_value, options_.blocks});
    engram::grad_w_reduce(stream, g.grad_w_partial, weight_hidden_, weight_embed_, {grad_hidden_, grad_embed_});
    return {reshaped(g.grad_hidden_states, saved.shape), reshaped(g.grad_k, saved.shape),
            reshaped(g.grad_v, without_heads(saved.shape))};
}

void EngramGate::zero_gradients(const Stream& stream) {
    for (const Tensor& g : {grad_hidden_, grad_embed_}) copy(stream, g, Tensor::zeros(stream, f32, g.extents()));
}

}  // namespace tessera::modeling

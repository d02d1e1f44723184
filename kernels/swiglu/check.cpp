#include "kernels/swiglu/check.hpp"

#include <fmt/format.h>
#include <initializer_list>

#include "dsl/base/error.hpp"
#include "kernels/check.hpp"
#include "kernels/quant/cast_input.hpp"

namespace tessera::swiglu {

namespace {

/// f32 (T, K)
void check_slots(const char* function, const char* name, const TensorView& t, Element element, const Stream& stream) {
    if (t.element != element || t.rank() != 2 || !t.is_contiguous())
        throw UsageError(fmt::format("{}: {} is {} {} with strides {}, but must be a dense {} matrix (tokens, top-k)",
                                     function, name, name_of(t.element), text_of(t.extents), text_of(t.strides),
                                     name_of(element)));
    check_device(function, name, stream, t);
}

bool is_group(std::int64_t n) { return n == 16 || n == 32 || n == 64 || n == 128; }

void check_clamp(const char* function, const std::optional<float>& clamp) {
    if (clamp && !(*clamp > 0))
        throw UsageError(fmt::format("{}: swiglu_clamp_value is {}; it is above 0, or not given", function, *clamp));
}

constexpr const char* forward = "swiglu_forward_and_per_token_cast";
constexpr const char* backward = "swiglu_backward_and_per_token_cast";

}  // namespace

TensorView halves(const TensorView& t, std::int64_t rows, std::int64_t columns) {
    return TensorView::of(t.device, t.data, t.element, {2, rows, columns}, {columns, 2 * columns, 1});
}

TensorView flat(const TensorView& t) { return TensorView::of(t.device, t.data, t.element, {t.count()}); }

void check_forward_options(Element in, std::int64_t hidden, const ForwardOptions& options) {
    if (in != bf16 && in != f32)
        throw UsageError(fmt::format("{}: x is {}; this kernel takes bf16 or f32", forward, name_of(in)));
    if (hidden < 1)
        throw UsageError(fmt::format("{}: {} channels; a row has at least one in each half", forward, hidden));
    if (!is_group(options.num_per_channels) && options.num_per_channels != hidden)
        throw UsageError(fmt::format("{}: num_per_channels is {}; it is 16, 32, 64, 128 or all {} channels", forward,
                                     options.num_per_channels, hidden));
    check_clamp(forward, options.swiglu_clamp_value);
    if (options.sf_clamp_min && !(*options.sf_clamp_min >= 448 * 0x1p-126f && *options.sf_clamp_min <= 0x1p127f))
        throw UsageError(fmt::format("{}: sf_clamp_min is {}; it is at least 448 · 2^-126, so that scales are normal",
                                     forward, *options.sf_clamp_min));
}

ForwardArguments check_forward(const Stream& stream, const TensorView& x, const ForwardOptions& options,
                               const ForwardMaps& maps) {
    quant::check_input(forward, stream, x);
    const std::int64_t tokens = x.extents[0], columns = x.extents[1];
    if (columns % 2 != 0)
        throw UsageError(
            fmt::format("{}: rows of {} channels; a row holds two halves of equal length", forward, columns));
    ForwardArguments a{tokens, columns / 2, x, {}, {}};
    check_forward_options(x.element, a.hidden, options);
    // One row has no stride of its own; the kernel still checks its facts about it.
    const std::int64_t pitch = tokens == 1 ? align_up(columns, 8) : x.strides[0];
    a.x.extents = {2, tokens, a.hidden};
    a.x.strides = {a.hidden, pitch, 1};
    a.scales = {options.scale_layout, tokens, ceil_div(a.hidden, options.num_per_channels)};
    a.shape = {maps.pos_to_token_topk.has_value(), maps.pos_to_expert.has_value(), maps.clamped_count.has_value()};
    if (a.shape.weights) {
        check_dense(forward, "pos_to_token_topk", stream, *maps.pos_to_token_topk, i32, {tokens});
        if (!maps.topk_weights)
            throw UsageError(
                fmt::format("{}: pos_to_token_topk is given without topk_weights; give both or none", forward));
        check_slots(forward, "topk_weights", *maps.topk_weights, f32, stream);
    }
    if (a.shape.pos_to_expert) check_dense(forward, "pos_to_expert", stream, *maps.pos_to_expert, i32, {tokens});
    if (a.shape.count) {
        check_dense(forward, "clamped_count", stream, *maps.clamped_count, i64, {3});
        if (!options.swiglu_clamp_value)
            throw UsageError(fmt::format(
                "{}: clamped_count is given without swiglu_clamp_value; nothing is cut, so give both or none",
                forward));
    }
    return a;
}

void check_forward_outputs(const ForwardArguments& a, const TensorView& data, const TensorView& sf,
                           const Stream& stream) {
    check_dense(forward, "data", stream, data, e4m3, {a.tokens, a.hidden});
    quant::check_scales(forward, sf, a.scales);
    check_device(forward, "sf", stream, sf);
}

void launch_forward(const CompiledKernel& kernel, const Stream& stream, const ForwardArguments& a,
                    const TensorView& data, const TensorView& sf, const ForwardOptions& options,
                    const ForwardMaps& maps) {
    TensorView tensors[7] = {a.x, data, quant::scales_for_kernel(sf, a.scales)};
    std::size_t count = 3;
    if (a.shape.weights) {
        tensors[count++] = *maps.pos_to_token_topk;
        tensors[count++] = flat(*maps.topk_weights);
    }
    if (a.shape.pos_to_expert) tensors[count++] = *maps.pos_to_expert;
    if (a.shape.count) tensors[count++] = *maps.clamped_count;
    const std::int64_t sf_pitch = sf.extents[1] == 1 ? a.scales.padded() : sf.strides[1];
    const bool packed = a.scales.layout == quant::ScaleLayout::packed_ue8m0;
    const Scalar scalars[2] = {Scalar("sf_pitch", sf_pitch),
                               Scalar("swiglu_clamp_value", options.swiglu_clamp_value.value_or(0.0f))};
    const std::size_t first = packed ? 0 : 1, last = options.swiglu_clamp_value ? 2 : 1;
    kernel.launch(stream, std::span<const TensorView>(tensors, count),
                  std::span<const Scalar>(scalars + first, last - first));
}

void check_backward_options(std::int64_t hidden, const BackwardOptions& options) {
    if (!is_group(options.num_per_channels) || hidden < 1 || hidden % options.num_per_channels != 0)
        throw UsageError(
            fmt::format("{}: num_per_channels is {} for {} channels; it is 16, 32, 64 or 128 and divides them",
                        backward, options.num_per_channels, hidden));
    check_clamp(backward, options.swiglu_clamp_value);
}

BackwardArguments check_backward(const Stream& stream, const BackwardInputs& inputs, const BackwardOptions& options) {
    const TensorView& x = inputs.x;
    if (x.element != e4m3 || x.rank() < 2 || !x.is_contiguous())
        throw UsageError(fmt::format("{}: x is {} {} with strides {}, but must be dense e4m3 (tokens, 2 · channels)",
                                     backward, name_of(x.element), text_of(x.extents), text_of(x.strides)));
    check_device(backward, "x", stream, x);
    const std::int64_t columns = x.extents.back();
    if (columns < 2 || columns % 2 != 0)
        throw UsageError(
            fmt::format("{}: rows of {} channels; a row holds two halves of equal length", backward, columns));
    std::int64_t tokens = 1;
    for (int i = 0; i + 1 < x.rank(); ++i) tokens *= x.extents[i];
    check_backward_options(columns / 2, options);
    const BackwardArguments a{tokens, columns / 2, columns / 2 / options.num_per_channels, inputs.weight.extents};
    check_dense(backward, "x_sf", stream, inputs.x_sf, f32, {tokens, 2 * a.groups});
    const TensorView& g = inputs.grad_out;
    if (g.element != bf16 || g.count() != tokens * a.hidden || !g.is_contiguous())
        throw UsageError(
            fmt::format("{}: grad_out is {} {} with strides {}, but must be dense bf16 with {} × {} elements", backward,
                        name_of(g.element), text_of(g.extents), text_of(g.strides), tokens, a.hidden));
    check_device(backward, "grad_out", stream, g);
    check_slots(backward, "weight", inputs.weight, f32, stream);
    check_dense(backward, "pos_to_token_topk", stream, inputs.pos_to_token_topk, i32, {tokens});
    check_dense(backward, "token_topk_to_pos", stream, inputs.token_topk_to_pos, i32, a.slots);
    return a;
}

void check_backward_outputs(const BackwardArguments& a, const BackwardOutputs<TensorView>& outputs,
                            const Stream& stream) {
    check_dense(backward, "out", stream, outputs.out, bf16, {a.tokens, a.hidden});
    check_dense(backward, "x_grad_q", stream, outputs.x_grad_q, e4m3, {a.tokens, 2 * a.hidden});
    check_dense(backward, "x_grad_sf", stream, outputs.x_grad_sf, f32, {a.tokens, 2 * a.groups});
    check_dense(backward, "x_grad", stream, outputs.x_grad, bf16, {a.tokens, 2 * a.hidden});
    check_dense(backward, "weight_grad", stream, outputs.weight_grad, f32, a.slots);
}

}  // namespace tessera::swiglu

#include "kernels/engram/gate.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/engram/check.hpp"

namespace tessera::engram {

namespace {

/// A bf16 tensor whose rows are dense and lie anywhere.
void check_rows(const char* function, const char* name, const Stream& stream, const TensorView& x,
                const Shape& extents) {
    check_kind(function, name, stream, x, bf16, extents.rank());
    if (!(x.extents == extents))
        throw UsageError(fmt::format("{}: {} has extents {}, but hidden_states and weight_fused need {}", function,
                                     name, text_of(x.extents), text_of(extents)));
    bool dense = extents.back() == 1 || x.strides.back() == 1;
    for (int i = 0; i + 1 < x.rank(); ++i) dense = dense && (extents[i] <= 1 || x.strides[i] >= 0);
    if (!dense)
        throw UsageError(fmt::format(
            "{}: {} has strides {}; its rows must be dense (last stride 1) and the other strides at least 0; copy it "
            "first",
            function, name, text_of(x.strides)));
}

}  // namespace

float inverse_root(std::int64_t hidden) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(hidden))); }

GateShape check_gate(const char* function, const Stream& stream, const GateInputs& in) {
    check_kind(function, "hidden_states", stream, in.hidden_states, bf16, 3);
    const Shape& e = in.hidden_states.extents;
    const GateShape shape{e[0], e[1], e[2]};
    check_dense(function, "hidden_states", stream, in.hidden_states, bf16, shape.rows());
    check_rows(function, "k", stream, in.k, shape.rows());
    check_rows(function, "v", stream, in.v, {shape.tokens, shape.hidden});
    check_dense(function, "weight_fused", stream, in.weight_fused, f32, {shape.heads, shape.hidden});
    return shape;
}

void check_clamp(const char* function, float clamp_value) {
    if (!(clamp_value >= 0) || std::isinf(clamp_value))
        throw UsageError(fmt::format("{}: clamp_value is {}; it is a number of at least 0", function, clamp_value));
}

TensorView with_strides(const TensorView& x) {
    TensorView result = x;
    result.strides[x.rank() - 1] = 1;
    for (int i = 0; i + 1 < x.rank(); ++i)
        if (x.extents[i] <= 1) result.strides[i] = align_up(x.extents.back(), 16);
    return result;
}

bool rows_at_16_bytes(std::initializer_list<const TensorView*> views) {
    return std::all_of(views.begin(), views.end(), [](const TensorView* v) {
        const std::int64_t bytes = bits_of(v->element) / 8;
        if (reinterpret_cast<std::uintptr_t>(v->data) % 16 != 0) return false;
        for (int i = 0; i + 1 < v->rank(); ++i)
            if (v->extents[i] > 1 && v->strides[i] * bytes % 16 != 0) return false;
        return true;
    });
}

GateTensors::GateTensors(Kernel& kernel, std::int64_t heads, std::int64_t hidden, bool aligned)
    : tokens(kernel.dim("tokens")),
      x(kernel.input<bf16>("x", {tokens, heads, hidden}, {.align = aligned ? 16 : 2})),
      k(kernel.input<bf16>("k", {tokens, heads, hidden},
                           {.align = aligned ? 16 : 2,
                            .strides = {kernel.dim("k_token", multiple_of(aligned ? 8 : 1)),
                                        kernel.dim("k_head", multiple_of(aligned ? 8 : 1)), 1}})),
      v(kernel.input<bf16>(
          "v", {tokens, hidden},
          {.align = aligned ? 16 : 2, .strides = {kernel.dim("v_token", multiple_of(aligned ? 8 : 1)), 1}})),
      w(kernel.input<f32>("w", {heads, hidden}, {.align = aligned ? 16 : 4})) {}

}  // namespace tessera::engram

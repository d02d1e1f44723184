#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/quant/cast_input.hpp"
#include "kernels/quant/scale_input.hpp"
#include "runtime/engine.hpp"

namespace tessera::quant {

namespace {

template <Element In, Element Out>
Program recorded(std::int64_t hidden, const QuantizedLayout& from, bool aligned) {
    return record("cast_back", [=](Kernel& k) {
        const CastTensors<In, Out> t(k, hidden, aligned);
        const ScaleInput sf(k, from.scale_layout, t.tokens, hidden, from.block_rows, from.block_columns);
        const ScaledTile tile = ScaledTile::choose(hidden, from.block_rows, 4096);
        k.threads(128);
        const auto [m, n] = k.grid(ceil_div(t.tokens, tile.rows), ceil_div(hidden, tile.cols));

        const auto q = cast<f32>(load(t.x.block({tile.rows, tile.cols}, {m, n})));
        const auto scale = sf.load(tile, m, n).unsqueeze(axis<2>);
        store(t.y.block({tile.rows, tile.cols}, {m, n}),
              cast<Out>((q.split(axis<1>, sf.shared_columns(tile)) * scale).merge(axis<1>)));
    });
}

void check_output_type(Element out) {
    if (out != bf16 && out != f32)
        throw UsageError(fmt::format("cast_back: the output is {}; use bf16 or f32", name_of(out)));
}

}  // namespace

Program cast_back_program(Element in, std::int64_t hidden, const QuantizedLayout& from, Element out, bool aligned) {
    check_output_type(out);
    if (in != e4m3 && in != e2m1 && in != e5m6)
        throw UsageError(fmt::format("cast_back: the input is {}; use e4m3, e2m1 or e5m6", name_of(in)));
    check_whole_bytes("cast_back", in, hidden);
    return with_element<e4m3, e2m1, e5m6>(in, [&]<Element In>() {
        return with_element<bf16, f32>(out, [&]<Element Out>() { return recorded<In, Out>(hidden, from, aligned); });
    });
}

void cast_back(const Stream& stream, const QuantizedView& x, const TensorView& out) {
    check_quantized("cast_back", stream, x);
    check_output_type(out.element);
    check_codes("cast_back", out, out.element, x.data);
    if (x.data.extents[0] == 0) return;
    const bool aligned = rows_aligned(x.data, out);
    const std::int64_t hidden = x.data.extents[1];
    const KernelId id("cast_back",
                      {x.data.element, out.element, hidden, x.scale_layout, x.block_rows, x.block_columns, aligned});
    const CompiledKernel& kernel = Engine::of(stream).kernel(
        stream, id, [&] { return cast_back_program(x.data.element, hidden, x.layout(), out.element, aligned); });
    launch_scaled(kernel, stream, x, out);
}

Tensor cast_back(const Stream& stream, const QuantizedView& x, Element out) {
    check_quantized("cast_back", stream, x);
    check_output_type(out);
    Tensor result = Tensor::empty(stream, out, x.data.extents);
    cast_back(stream, x, result);
    return result;
}

}  // namespace tessera::quant

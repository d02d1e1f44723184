#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/quant/cast_input.hpp"
#include "runtime/engine.hpp"

namespace tessera::quant {

namespace {

/// What a kernel is specialised for.
struct Form {
    std::int64_t hidden;
    BlockCastOptions options;
    bool aligned;
    bool codes;  // are written, not only scales
};

template <Element In, Element Out>
Program recorded(const Form& f) {
    return record("per_block_cast", [=](Kernel& k) {
        const auto& [hidden, o, aligned, codes] = f;
        const CastTensors<In, Out> t(k, hidden, aligned, codes);
        const ScaleOutput sf(k, o.scale_layout, ceil_div(t.tokens, o.block_rows), ceil_div(hidden, o.block_columns));
        const bool round = rounds(o.scale_layout, o.round_sf);
        // A block of threads takes one row of blocks: 128 × 128, 128 × 64 or 32 × 256 values.
        const std::int64_t rows = o.block_rows;
        const std::int64_t cols = rows == 32 ? 256 : std::max<std::int64_t>(64, o.block_columns);
        const std::int64_t groups = cols / o.block_columns;
        k.threads(256, aligned ? 0 : 1);  // element by element it takes more registers than the compiler believes
        const auto [m, n] = k.grid(sf.rows(), std::max(ceil_div(hidden, cols), ceil_div(sf.groups(), groups)));

        const auto block = t.x.block({rows, cols}, {m, n});
        // Read once from memory, then from shared memory as often as registers would be: more blocks are under way.
        const bool staged = codes && aligned && rows == 128 && In == bf16 && hidden % vector_elements(In) == 0;
        const auto tile = staged ? k.shared<In>("tile", {rows, cols}) : Shared<In, 2>({}, {});
        if (staged) {
            copy_async(tile.whole(), block);
            wait_copies();
        }
        const auto values = [&] {  // [rows, groups, columns]
            return (staged ? load(tile.whole()) : load(block)).split(axis<1>, o.block_columns);
        };
        const auto v = values();
        const auto amax =
            cast<f32>(reduce_max(abs(v).template permute<1, 0, 2>().merge(axis<1>), axis<1>));  // [groups, 1]
        const auto scales = scales_of(amax, limits_of(Out), round);
        sf.store({scales.sf.template permute<1, 0>(), scales.inv.template permute<1, 0>(),
                  scales.exponent.template permute<1, 0>()},
                 {1, groups}, m, n);
        if (codes)
            store(t.y.block({rows, cols}, {m, n}),
                  encode<Out>(staged ? values() : v, scales.inv.unsqueeze(axis<0>), round).merge(axis<1>));
    });
}

void check_options(std::int64_t hidden, const BlockCastOptions& o) {
    if (o.format != e4m3 && o.format != e2m1)
        throw UsageError(fmt::format("per_block_cast: format is {}; use e4m3 or e2m1", name_of(o.format)));
    check_whole_bytes("per_block_cast", o.format, hidden);
    for (std::int64_t side : {o.block_rows, o.block_columns})
        if (side != 32 && side != 128)
            throw UsageError(fmt::format("per_block_cast: blocks of {} × {}; each side is 32 or 128", o.block_rows,
                                         o.block_columns));
}

ScaleShape scale_shape(const TensorView& x, const BlockCastOptions& o) {
    return {o.scale_layout, ceil_div(x.extents[0], o.block_rows), ceil_div(x.extents[1], o.block_columns)};
}

Program recorded_for(Element in, const Form& f) {
    check_options(f.hidden, f.options);
    if (in != bf16 && in != f32)
        throw UsageError(fmt::format("per_block_cast: the input is {}; this cast takes bf16 or f32", name_of(in)));
    return with_element<bf16, f32>(in, [&]<Element In>() {
        return with_element<e4m3, e2m1>(f.options.format, [&]<Element Out>() { return recorded<In, Out>(f); });
    });
}

/// Starts the kernel on checked arguments. data: null if only the scales are asked for.
void start(const Stream& stream, const TensorView& x, const TensorView* data, const TensorView& sf,
           const BlockCastOptions& options) {
    const ScaleShape shape = scale_shape(x, options);
    check_scales("per_block_cast", sf, shape);
    if (x.extents[0] == 0) return;
    const Form f{x.extents[1], options, rows_aligned(x, data ? *data : x), data != nullptr};
    const KernelId id("per_block_cast",
                      {x.element, options.format, f.hidden, options.block_rows, options.block_columns,
                       options.scale_layout, rounds(options.scale_layout, options.round_sf), f.aligned, f.codes});
    const CompiledKernel& kernel = Engine::of(stream).kernel(stream, id, [&] { return recorded_for(x.element, f); });
    launch_cast(kernel, stream, x, data, sf, shape);
}

}  // namespace

Program per_block_cast_program(Element in, std::int64_t hidden, const BlockCastOptions& options, bool aligned) {
    return recorded_for(in, {hidden, options, aligned, true});
}

Program per_block_cast_with_sf_only_program(Element in, std::int64_t hidden, const BlockCastOptions& options,
                                            bool aligned) {
    return recorded_for(in, {hidden, options, aligned, false});
}

void per_block_cast(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                    const BlockCastOptions& options) {
    check_input("per_block_cast", stream, x);
    check_options(x.extents[1], options);
    check_codes("per_block_cast", data, options.format, x);
    start(stream, x, &data, sf, options);
}

Quantized per_block_cast(const Stream& stream, const TensorView& x, const BlockCastOptions& options) {
    check_input("per_block_cast", stream, x);
    check_options(x.extents[1], options);
    Quantized result = empty_quantized(stream, options.format, x.extents, scale_shape(x, options));
    start(stream, x, &result.data.view(), result.sf, options);
    return result;
}

void per_block_cast_with_sf_only(const Stream& stream, const TensorView& x, const TensorView& sf,
                                 const BlockCastOptions& options) {
    check_input("per_block_cast_with_sf_only", stream, x);
    check_options(x.extents[1], options);
    start(stream, x, nullptr, sf, options);
}

Tensor per_block_cast_with_sf_only(const Stream& stream, const TensorView& x, const BlockCastOptions& options) {
    check_input("per_block_cast_with_sf_only", stream, x);
    check_options(x.extents[1], options);
    Tensor sf = empty_scales(stream, scale_shape(x, options));
    per_block_cast_with_sf_only(stream, x, sf, options);
    return sf;
}

}  // namespace tessera::quant

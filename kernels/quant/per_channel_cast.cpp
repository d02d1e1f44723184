#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/check.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/quant/channel.hpp"
#include "kernels/quant/scale_input.hpp"
#include "runtime/engine.hpp"

// per_channel_cast and per_channel_cast_fused: one recording.

namespace tessera::quant {

namespace {

using OptionalView = std::optional<TensorView>;

/// The parameter "x_sf" of a pair, and the values of a strip that it makes.
class StripScales {
public:
    StripScales(Kernel& k, const QuantizedLayout& from, const Index& tokens, std::int64_t hidden) : from_(from) {
        const Index blocks = ceil_div(tokens, from.block_rows);
        const std::int64_t groups = ceil_div(hidden, from.block_columns);
        const Dim pitch = k.dim("x_sf_pitch");
        if (from.scale_layout == ScaleLayout::packed_ue8m0)
            bytes_ = k.input<ue8m0>("x_sf", {blocks, groups},
                                    {.align = 4, .strides = {4, AxisStride(pitch * 4).packed(4, 1)}});
        else if (from.scale_layout == ScaleLayout::row_major)
            numbers_ = k.input<f32>("x_sf", {blocks, groups}, {.align = 4, .strides = {pitch, 1}});
        else
            numbers_ = k.input<f32>("x_sf", {blocks, groups}, {.align = 4, .strides = {1, pitch}});
    }

    /// Scales of a strip: of these rows of blocks, and of its columns from `column` on. [rows, 1], [rows, groups] or
    /// one for every column, as the borders of groups fall.
    Value<f32, 2> load(const Offset& rows, const Index& column, std::int64_t cols) const {
        const std::int64_t wide = from_.block_columns;
        if (wide % cols == 0) return at(rows, 1, column / wide);
        if (cols % wide == 0) return at(rows, cols / wide, column / wide);
        return at(rows, cols, (coordinates({cols}, axis<0>) + column) / wide);
    }
    Value<f32, 2> times(const Value<e4m3, 2>& q, const Value<f32, 2>& scales) const {
        const auto v = cast<f32>(q);
        const std::int64_t groups = scales.extent(1), cols = q.extent(1);
        if (groups == 1 || groups == cols) return v * scales;
        return (v.split(axis<1>, cols / groups) * scales.unsqueeze(axis<2>)).merge(axis<1>);
    }

private:
    Value<f32, 2> at(const Offset& rows, std::int64_t groups, const Offset& group) const {
        if (from_.scale_layout != ScaleLayout::packed_ue8m0)
            return tessera::load(numbers_.window({strip_rows, groups}, {rows, group}));
        const auto exponent = bitcast<u8>(tessera::load(bytes_.window({strip_rows, groups}, {rows, group})));
        return bitcast<f32>(cast<u32>(exponent) << 23u);
    }
    QuantizedLayout from_;
    Global<f32, 2> numbers_{detail::ViewSpec{}};
    Global<ue8m0, 2> bytes_{detail::ViewSpec{}};
};

/// Whether strips are copied past the registers, in vectors; and their columns: pieces of rows are whole lines then.
constexpr bool copied(Element in, std::int64_t hidden, bool aligned) {
    return aligned && hidden % vector_elements(in) == 0;
}
constexpr std::int64_t columns_of(Element in, std::int64_t hidden, bool aligned) {
    return copied(in, hidden, aligned) ? 1024 / bits_of(in) : strip_columns;
}

constexpr std::int64_t piece_rows = 32, pieces = strip_rows / piece_rows;
/// Of a block that scales what it has copied. Shared memory limits the blocks of a multiprocessor, and one warp each
/// would leave it idle: every value is converted twice.
constexpr int pair_threads = 64;

struct Form {
    std::int64_t hidden;
    ChannelCastOptions options;
    bool gather, aligned;
};

/// The parameters that both kinds of input have, and the strip (m, n) of the grid.
template <Element In>
struct Strip {
    Index tokens, rows;
    Global<In, 2> x{detail::ViewSpec{}};
    Global<i32, 1> pos_to_token{detail::ViewSpec{}};
    Global<e4m3, 2> y{detail::ViewSpec{}};
    Global<f32, 2> sf{detail::ViewSpec{}};
    Index m{0}, n{0};
    std::int64_t cols;
    int threads;

    Strip(Kernel& k, const Form& f, int threads_of_block = strip_threads)
        : tokens(k.dim("tokens")),
          rows(f.gather ? k.dim("rows") : tokens),
          cols(columns_of(In, f.hidden, f.aligned)),
          threads(threads_of_block) {
        constexpr int vector = 128 / bits_of(In);
        const Dim pitch = k.dim("x_pitch", multiple_of(f.aligned ? vector : 1));
        x = k.input<In>("x", {tokens, f.hidden}, {.align = f.aligned ? 16 : least_align(In), .strides = {pitch, 1}});
        if (f.gather) pos_to_token = k.input<i32>("pos_to_token", {rows}, {.align = 4});
        y = k.output<e4m3>("y", {rows, f.hidden}, {.align = f.aligned ? 16 : 1});
        sf = k.output<f32>("sf", {ceil_div(rows, f.options.num_per_tokens), f.hidden}, {.align = f.aligned ? 16 : 4});
        k.threads(threads, 1);
        if (!f.gather) {
            const auto grid = k.grid(ceil_div(rows, strip_rows), ceil_div(f.hidden, cols));
            m = grid.x, n = grid.y;
            return;
        }
        // Rows that are gathered several times: all rows of a few strips come before the next few, so that what is read
        // again is still in L2. Else all strips of the same rows come together, as memory has them.
        const Dim together = k.dim("strips_together");  // divides the strips
        const std::int64_t strips = ceil_div(f.hidden, cols);
        const auto grid = k.grid((together + (strips - 1)) / together, ceil_div(rows, strip_rows), together);
        m = grid.y, n = max(min(grid.x * together + grid.z, strips - 1), 0);
    }
    Value<i32, 1> gathered() const { return load(pos_to_token.block({strip_rows}, {m}), -1); }
    /// Reports entries that are no row of x, where masks read nothing; one strip of each row of strips looks.
    void check_gathered(Kernel& k) const {
        k.serial(select(n == 0, Index(1), 0), [&](Index) {
            const auto piece = pos_to_token.block({strip_rows}, {m});
            const auto row = load(piece, -1);
            k.report(cast<i64>(row) >= tokens, "an entry is a row of x, or negative for an empty row", piece, row);
        });
    }

    /// Quantizes a strip that lies in registers.
    template <Element T>
    void write(const Form& f, const Value<T, 2>& values) const {
        const auto v = values.split(axis<0>, f.options.num_per_tokens);
        const auto scales = scales_of(channel_maxima(v), limits_of(e4m3), f.options.round_sf);
        store(y.block({strip_rows, cols}, {m, n}), encode<e4m3>(v, scales.inv, f.options.round_sf).merge(axis<0>));
        store(sf.block({strip_rows / f.options.num_per_tokens, cols}, {m, n}), scales.sf.squeeze(axis<1>));
    }
    /// Quantizes a strip that lies elsewhere, piece by piece: piece(p) reads its rows from p · piece_rows on.
    template <class Piece>
    void write_pieces(Kernel& k, const Form& f, std::int64_t side_by_side, Piece&& piece) const {
        const std::int64_t lane_rows = threads / (cols / side_by_side);
        const auto maxima = [&](const Index& p) {  // of the rows that a thread holds
            return reduce_max(abs(piece(p)).split(axis<0>, lane_rows), axis<0>).squeeze(axis<0>);
        };
        const auto store_codes = [&](const Index& p, const Scales<2>& scales) {
            store(y.block({piece_rows, cols}, {m * pieces + p, n}),
                  encode<e4m3>(piece(p), scales.inv, f.options.round_sf));
        };
        const auto scales_from = [&](const auto& largest) {
            return scales_of(cast<f32>(reduce_max(largest, axis<0>)), limits_of(e4m3), f.options.round_sf);
        };
        if (f.options.num_per_tokens == piece_rows) {
            k.serial(pieces, [&](Index p) {
                const auto scales = scales_from(maxima(p));
                store_codes(p, scales);
                store(sf.block({1, cols}, {m * pieces + p, n}), scales.sf);
            });
            return;
        }
        auto largest = k.variable(maxima(0));
        k.serial(pieces - 1, [&](Index p) { largest = max(largest.get(), maxima(p + 1)); });
        const auto scales = scales_from(largest.get());
        store(sf.block({1, cols}, {m, n}), scales.sf);
        k.serial(pieces, [&](Index p) { store_codes(p, scales); });
    }
};

template <Element In>
Program plain_program(const Form& f) {
    return record("per_channel_cast", [=](Kernel& k) {
        const Strip<In> s(k, f);
        if (f.gather) s.check_gathered(k);
        const Offset rows = f.gather ? Offset(s.gathered()) : Offset(s.m * strip_rows);
        // 16 bytes a thread also where accesses may be longer: wider pieces would not fit the registers.
        const std::int64_t side_by_side = f.aligned ? 128 / bits_of(In) : 1;
        const auto strip = s.x.window({strip_rows, s.cols}, {rows, s.n * s.cols});
        if (copied(In, f.hidden, f.aligned)) {
            const auto tile = k.shared<In>("tile", {strip_rows, s.cols});
            copy_async(tile.whole(), strip);
            wait_copies();
            s.write_pieces(k, f, side_by_side, [&](const Index& p) {
                return load(tile.block({piece_rows, s.cols}, {p, 0}), {.per_thread = {1, side_by_side}});
            });
            return;
        }
        s.write(f, load(strip, {.per_thread = {1, side_by_side}}));
    });
}

/// Where a strip's rows of x lie, and the rows of blocks that they belong to.
struct RowsAndBlocks {
    Offset rows, blocks;
};
RowsAndBlocks rows_and_blocks(const Strip<e4m3>& s, const Form& f, std::int64_t block_rows) {
    if (f.gather) {
        const auto pos = s.gathered();
        if (block_rows == 1) return {pos, pos};
        return {pos, select(pos < 0, pos, pos / block_rows)};
    }
    const Index first = s.m * strip_rows;
    if (block_rows == 1) return {first, first};
    return {first, (coordinates({strip_rows}, axis<0>) + first) / block_rows};
}

Program pair_program(const QuantizedLayout& from, const Form& f) {
    return record("per_channel_cast_pair", [=](Kernel& k) {
        const bool copies = copied(e4m3, f.hidden, f.aligned);
        const std::int64_t codes = copies ? 16 : 8;
        const Strip<e4m3> s(k, f, copies ? pair_threads : strip_threads);
        const StripScales x_sf(k, from, s.tokens, f.hidden);
        if (f.gather) s.check_gathered(k);
        const auto [rows, blocks] = rows_and_blocks(s, f, from.block_rows);
        const auto strip = s.x.window({strip_rows, s.cols}, {rows, s.n * s.cols});
        if (copies) {
            const auto tile = k.shared<e4m3>("tile", {strip_rows, s.cols});
            copy_async(tile.whole(), strip);
            const auto scales = x_sf.load(blocks, s.n * s.cols, s.cols);
            const auto factors = k.shared<f32>("factors", {strip_rows, scales.extent(1)});
            store(factors.whole(), scales);
            wait_copies();
            s.write_pieces(k, f, codes, [&](const Index& p) {
                return x_sf.times(load(tile.block({piece_rows, s.cols}, {p, 0}), {.per_thread = {1, codes}}),
                                  load(factors.block({piece_rows, scales.extent(1)}, {p, 0})));
            });
            return;
        }
        // 8 codes a thread: its 128 values fit registers as FP32 and are made once.
        const auto q = load(strip, {.per_thread = {1, codes}});
        s.write(f, x_sf.times(q, x_sf.load(blocks, s.n * s.cols, s.cols)));
    });
}

/// Rows of the result. Errors: UsageError.
std::int64_t rows_of(const char* function, const Stream& stream, const TensorView& x, const OptionalView& pos) {
    if (!pos) return x.extents[0];
    if (pos->element != i32 || pos->rank() != 1 || !pos->is_contiguous())
        throw UsageError(fmt::format("{}: pos_to_token is {} {} with strides {}, but must be i32 [rows] and dense",
                                     function, name_of(pos->element), text_of(pos->extents), text_of(pos->strides)));
    check_device(function, "pos_to_token", stream, *pos);
    return pos->extents[0];
}

/// All of a row's strips, or a few if rows of x are read several times.
std::int64_t strips_together(const TensorView& x, const TensorView& data, bool aligned) {
    const std::int64_t strips = ceil_div(data.extents[1], columns_of(x.element, data.extents[1], aligned));
    const bool again = data.extents[0] * 8 > x.extents[0] * 9;
    std::int64_t few = 4;
    while (strips % few != 0) few /= 2;
    return again ? few : strips;
}

void launch(const CompiledKernel& kernel, const Stream& stream, const TensorView& x, const OptionalView& pos,
            const TensorView& data, const TensorView& sf, const ScaleArgument* x_sf, bool aligned) {
    TensorView tensors[5] = {pitched(x)};
    std::size_t count = 1;
    if (pos) tensors[count++] = *pos;
    tensors[count++] = data;
    tensors[count++] = sf;
    if (x_sf) tensors[count++] = x_sf->view;
    Scalar numbers[2] = {Scalar("strips_together", strips_together(x, data, aligned)),
                         Scalar("x_sf_pitch", x_sf ? x_sf->pitch : 0)};
    const bool packed = x_sf && x_sf->packed;
    if (!pos) numbers[0] = numbers[1];
    kernel.launch(stream, std::span<const TensorView>(tensors, count),
                  std::span<const Scalar>(numbers, (pos ? 1u : 0u) + (packed ? 1u : 0u)));
}

void cast_plain(const char* function, const Stream& stream, const TensorView& x, const TensorView& data,
                const TensorView& sf, const ChannelCastOptions& o, const OptionalView& pos) {
    check_input(function, stream, x);
    check_channel_options(function, o);
    const std::int64_t rows = rows_of(function, stream, x, pos), hidden = x.extents[1];
    check_channel_outputs(function, data, {rows, hidden}, sf, rows, hidden, o);
    if (rows == 0) return;
    const bool aligned = rows_aligned(x, data) && reinterpret_cast<std::uintptr_t>(sf.data) % 16 == 0;
    const KernelId id("per_channel_cast", {x.element, hidden, o.num_per_tokens, o.round_sf, pos.has_value(), aligned});
    launch(Engine::of(stream).kernel(
               stream, id, [&] { return per_channel_cast_program(x.element, hidden, o, pos.has_value(), aligned); }),
           stream, x, pos, data, sf, nullptr, aligned);
}

Quantized cast_plain(const char* function, const Stream& stream, const TensorView& x, const ChannelCastOptions& o,
                     const OptionalView& pos) {
    check_input(function, stream, x);
    check_channel_options(function, o);
    const std::int64_t rows = rows_of(function, stream, x, pos), hidden = x.extents[1];
    auto [codes, scales] =
        Tensor::empty_together(stream, {{e4m3, {rows, hidden}}, {f32, channel_scales(rows, hidden, o)}});
    Quantized result{std::move(codes), std::move(scales)};
    cast_plain(function, stream, x, result.data, result.sf, o, pos);
    return result;
}

constexpr const char* fused = "per_channel_cast_fused";

void check_pair(const Stream& stream, const QuantizedView& x) {
    check_quantized(fused, stream, x);
    if (x.data.element != e4m3)
        throw UsageError(fmt::format("{}: x is {}; a quantized x is e4m3", fused, name_of(x.data.element)));
}

}  // namespace

Program per_channel_cast_program(Element in, std::int64_t hidden, const ChannelCastOptions& options, bool gather,
                                 bool aligned) {
    check_channel_options("per_channel_cast", options);
    if (in != bf16 && in != f32)
        throw UsageError(fmt::format("per_channel_cast: the input is {}; this cast takes bf16 or f32", name_of(in)));
    return with_element<bf16, f32>(in,
                                   [&]<Element In>() { return plain_program<In>({hidden, options, gather, aligned}); });
}

Program per_channel_cast_program(const QuantizedLayout& from, std::int64_t hidden, const ChannelCastOptions& options,
                                 bool gather, bool aligned) {
    check_channel_options(fused, options);
    return pair_program(from, {hidden, options, gather, aligned});
}

Quantized per_channel_cast(const Stream& stream, const TensorView& x, const ChannelCastOptions& options) {
    return cast_plain("per_channel_cast", stream, x, options, {});
}
void per_channel_cast(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                      const ChannelCastOptions& options) {
    cast_plain("per_channel_cast", stream, x, data, sf, options, {});
}

Quantized per_channel_cast_fused(const Stream& stream, const TensorView& x, const FusedChannelCastOptions& options) {
    return cast_plain(fused, stream, x, options, options.pos_to_token);
}
void per_channel_cast_fused(const Stream& stream, const TensorView& x, const TensorView& data, const TensorView& sf,
                            const FusedChannelCastOptions& options) {
    cast_plain(fused, stream, x, data, sf, options, options.pos_to_token);
}

void per_channel_cast_fused(const Stream& stream, const QuantizedView& x, const TensorView& data, const TensorView& sf,
                            const FusedChannelCastOptions& options) {
    check_pair(stream, x);
    check_channel_options(fused, options);
    const std::int64_t rows = rows_of(fused, stream, x.data, options.pos_to_token), hidden = x.data.extents[1];
    check_channel_outputs(fused, data, {rows, hidden}, sf, rows, hidden, options);
    if (rows == 0) return;
    const bool gather = options.pos_to_token.has_value();
    const bool aligned = rows_aligned(x.data, data) && reinterpret_cast<std::uintptr_t>(sf.data) % 16 == 0;
    const QuantizedLayout from = x.layout();
    const KernelId id("per_channel_cast_pair", {hidden, options.num_per_tokens, options.round_sf, gather, aligned,
                                                from.scale_layout, from.block_rows, from.block_columns});
    const ScaleArgument x_sf = scale_argument(x);
    launch(Engine::of(stream).kernel(stream, id,
                                     [&] { return per_channel_cast_program(from, hidden, options, gather, aligned); }),
           stream, x.data, options.pos_to_token, data, sf, &x_sf, aligned);
}

Quantized per_channel_cast_fused(const Stream& stream, const QuantizedView& x, const FusedChannelCastOptions& options) {
    check_pair(stream, x);
    check_channel_options(fused, options);
    const std::int64_t rows = rows_of(fused, stream, x.data, options.pos_to_token), hidden = x.data.extents[1];
    auto [codes, scales] =
        Tensor::empty_together(stream, {{e4m3, {rows, hidden}}, {f32, channel_scales(rows, hidden, options)}});
    Quantized result{std::move(codes), std::move(scales)};
    per_channel_cast_fused(stream, x, result.data, result.sf, options);
    return result;
}

}  // namespace tessera::quant

#include <bit>
#include <fmt/format.h>
#include <memory>
#include <vector>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "kernels/moe.hpp"
#include "kernels/moe/positions.hpp"
#include "kernels/moe/rows.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::moe {

namespace {

/// Rows of positions that a block clears where they are padding, to one of tokens that it moves: there are more
/// positions than tokens, and blocks without a token would cost as much time as the others.
constexpr std::int64_t positions_to_token = 2;

/// Where rows of tokens go, and which of the block's positions are padding. Made once for the data and once for the
/// scales: tiles of another shape lie over the threads in another way, and the lists come from cache.
struct Destinations {
    std::vector<Value<i64, 1>> slots;
    std::vector<Value<i64, 1>> padding;

    Destinations(const Global<i32, 2>& token_topk_to_pos, const Global<i32, 1>& pos_to_expert, std::int64_t rows,
                 const Index& m, std::int64_t topk, const Index& positions, const Index& blocks) {
        for (std::int64_t s = 0; s < topk; ++s) {
            const auto pos = load(token_topk_to_pos.window({rows, 1}, {m * rows, s}), -1).squeeze(axis<1>);
            const auto wide = cast<i64>(pos);
            slots.push_back(select(wide < positions, wide, -1));
        }
        for (std::int64_t i = 0; i < positions_to_token; ++i) {
            const Index block = m + blocks * i;
            const auto own = block * rows + coordinates({rows}, axis<0>);
            padding.push_back(select(load(pos_to_expert.block({rows}, {block}), -1) < 0, own, -1));
        }
    }
};

/// Stores a tile at rows `at`.
template <Element T>
void store_rows(const Global<T, 2>& to, const Value<i64, 1>& at, const Index& column, const Value<T, 2>& v) {
    store(to.window({v.extent(0), v.extent(1)}, {at, column}), v);
}

/// The columns of scales that each of `blocks` blocks moves.
std::int64_t scale_columns(std::int64_t words, std::int64_t blocks) {
    const std::int64_t each = ceil_div(words, blocks);
    if (each > 128) return align_up(each, 128);
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(each)));
}

/// Block (m, n) moves rows of tokens to where their slots say, and clears the rows of padding among its positions.
template <Element Word>
Program recorded(std::int64_t row, std::int64_t topk, int align, ExpandedScales scales, std::int64_t scale_words) {
    return record("expand_to_fused", [=](Kernel& k) {
        const std::int64_t vector = align * 8 / bits_of(Word);
        // Rows with scales stay with few threads, whose vectors of both are then under way together.
        const auto [rows, cols, threads] = row_tile(row, vector, scales == ExpandedScales::none ? 4 : 10);
        const bool columns = scales == ExpandedScales::column_major;
        const Dim tokens = k.dim("tokens"), positions = k.dim("positions");
        const auto x =
            k.input<Word>("x", {tokens, row}, {.align = align, .strides = {k.dim("x_pitch", multiple_of(vector)), 1}});
        const auto slots =
            k.input<i32>("token_topk_to_pos", {tokens, topk}, {.align = 4, .strides = {k.dim("slots_pitch"), 1}});
        const auto expert = k.input<i32>("pos_to_expert", {positions}, {.align = 4});
        const auto out = k.output<Word>("out", {positions, row}, {.align = align});
        k.threads(threads);
        const Index covered = columns ? align_up(positions, 4) : positions;
        const Index blocks = ceil_div(max(tokens, ceil_div(covered, positions_to_token)), rows);
        const auto [m, n] = k.grid(blocks, ceil_div(row, cols));

        const auto v = load(x.block({rows, cols}, {m, n}));
        const Destinations to(slots, expert, rows, m, topk, positions, blocks);
        for (const auto& own : to.padding) store_rows(out, own, n * cols, full({rows, cols}, Value<Word, 0>(0)));
        for (const auto& pos : to.slots) store_rows(out, pos, n * cols, v);
        report_positions(k, slots, rows, m, n, topk, positions);
        if (scales == ExpandedScales::none) return;

        const bool vectors = scales == ExpandedScales::row_major_vectors;
        const int sf_align = vectors ? 16 : 4;
        const Dim sf_row = k.dim("x_sf_row", multiple_of(sf_align / 4));
        const AxisStride sf_column = vectors ? AxisStride(1) : AxisStride(k.dim("x_sf_column"));
        const auto x_sf =
            k.input<u32>("x_sf", {tokens, scale_words}, {.align = sf_align, .strides = {sf_row, sf_column}});
        const auto out_sf =
            columns ? k.output<u32>("out_sf", {covered, scale_words}, {.strides = {1, k.dim("out_sf_column")}})
                    : k.output<u32>("out_sf", {positions, scale_words}, {.align = sf_align});
        const std::int64_t words = scale_columns(scale_words, ceil_div(row, cols));
        const auto sf = load(x_sf.block({rows, words}, {m, n}));
        const Destinations sf_to(slots, expert, rows, m, topk, positions, blocks);
        for (const auto& own : sf_to.padding)
            store_rows(out_sf, own, n * words, full({rows, words}, Value<u32, 0>(0u)));
        for (const auto& pos : sf_to.slots) store_rows(out_sf, pos, n * words, sf);
    });
}

void check(const char* function, const Stream& stream, const TensorView& x, const TensorView& slots,
           const TensorView& expert) {
    check_rows(function, "x", stream, x);
    const int bits = bits_of(x.element);
    if ((bits != 8 && bits != 16 && bits != 32) || packed_elements_of(x.element) != 1)
        throw UsageError(fmt::format("{}: x is {}; elements have 1, 2 or 4 bytes", function, name_of(x.element)));
    check_positions(function, stream, slots, x.extents[0]);
    if (expert.rank() != 1)
        throw UsageError(
            fmt::format("{}: pos_to_expert has extents {}; it is i32 [P]", function, text_of(expert.extents)));
    check_dense(function, "pos_to_expert", stream, expert, i32, expert.extents);
}

/// Rows of x as words.
TensorView as_words(const TensorView& x, int word_bytes) {
    static constexpr Element words[] = {u8, u8, u16, u16, u32};
    TensorView result = with_pitch(x);
    const std::int64_t bytes = bits_of(x.element) / 8;
    result.element = words[word_bytes];
    result.extents[1] = x.extents[1] * bytes / word_bytes;
    result.strides[0] = result.strides[0] * bytes / word_bytes;
    return result;
}

struct ScaleArguments {
    ExpandedScales layout = ExpandedScales::none;
    TensorView from, to;
};

void launch(const Stream& stream, const TensorView& x, const TensorView& slots, const TensorView& expert,
            const TensorView& out, const ScaleArguments& sf) {
    const std::int64_t positions = expert.extents[0];
    if (positions == 0 && x.extents[0] == 0) return;
    // A row's length counts too: rows of `out` are dense.
    TensorView rows = with_pitch(out);
    rows.extents[0] = 2, rows.strides[0] = out.extents[1];
    const int align = common_alignment({x, rows}), word = std::min(align, 4);
    const TensorView from = as_words(x, word), to = as_words(out, word);
    const std::int64_t topk = slots.extents[1], scale_words = sf.layout == ExpandedScales::none ? 0 : sf.to.extents[1];
    const KernelId id("expand_to_fused", {word, from.extents[1], topk, align, sf.layout, scale_words});
    const CompiledKernel& kernel = Engine::of(stream).kernel(stream, id, [&] {
        return expand_to_fused_program(word, from.extents[1], topk, align, sf.layout, scale_words);
    });
    if (sf.layout == ExpandedScales::none)
        kernel.launch(stream, {from, with_pitch(slots), expert, to});
    else
        kernel.launch(stream, {from, with_pitch(slots), expert, to, sf.from, sf.to});
}

constexpr const char* with_sf = "expand_to_fused_with_sf";

void check_scale_options(const TensorView& x, const TensorView& x_sf, const Stream& stream,
                         const ScaledExpandOptions& o) {
    if (o.num_per_channels < 1 || o.num_per_channels > std::int64_t{1} << 40)
        throw UsageError(fmt::format("{}: num_per_channels is {}; it is from 1 to 2^40", with_sf, o.num_per_channels));
    if (x_sf.element != f32 && x_sf.element != i32)
        throw UsageError(fmt::format("{}: x_sf is {}; scales are f32, or i32 words of packed exponents", with_sf,
                                     name_of(x_sf.element)));
    const bool packed = x_sf.element == i32;
    if (packed && !o.column_major_sf)
        throw UsageError(
            fmt::format("{}: x_sf is packed (i32), but column_major_sf is false; packed output scales are "
                        "column-major: set it",
                        with_sf));
    const std::int64_t groups = ceil_div(x.extents[1], o.num_per_channels);
    const Shape extents{x.extents[0], packed ? ceil_div(groups, 4) : groups};
    if (!(x_sf.extents == extents))
        throw UsageError(fmt::format("{}: x_sf is {}, but {} with {} channels a scale needs {}", with_sf,
                                     text_of(x_sf.extents), text_of(x.extents), o.num_per_channels, text_of(extents)));
    for (int i = 0; i < 2; ++i)
        if (x_sf.extents[i] > 1 && x_sf.strides[i] < 0)
            throw UsageError(fmt::format("{}: x_sf has strides {}; none may be negative; copy it first", with_sf,
                                         text_of(x_sf.strides)));
    check_device(with_sf, "x_sf", stream, x_sf);
}

/// Column-major scales with what rounding up adds to each column.
TensorView whole_columns(const TensorView& sf) {
    TensorView all = sf;
    all.extents[0] = align_up(sf.extents[0], 4);
    all.strides[0] = 1;
    if (sf.extents[1] == 1) all.strides[1] = all.extents[0];
    return all;
}

ScaleArguments scale_arguments(const Stream& stream, const TensorView& x_sf, const TensorView& out_sf,
                               std::int64_t positions, bool columns) {
    const Shape extents{positions, x_sf.extents[1]};
    if (!columns) {
        check_dense(with_sf, "out_sf", stream, out_sf, x_sf.element, extents);
    } else {
        const bool fits = out_sf.element == x_sf.element && out_sf.extents == extents;
        const bool lies =
            (positions <= 1 || out_sf.strides[0] == 1) &&
            (extents[1] == 1 || (out_sf.strides[1] >= align_up(positions, 4) && out_sf.strides[1] % 4 == 0));
        if (!fits || (out_sf.count() > 0 && !lies) || reinterpret_cast<std::uintptr_t>(out_sf.data) % 16 != 0)
            throw UsageError(
                fmt::format("{}: out_sf is {} {} with strides {}, but must be {} {} with strides (1, a multiple of 4 "
                            "from {} on), at "
                            "a multiple of 16 bytes",
                            with_sf, name_of(out_sf.element), text_of(out_sf.extents), text_of(out_sf.strides),
                            name_of(x_sf.element), text_of(extents), align_up(positions, 4)));
    }
    ScaleArguments sf{columns ? ExpandedScales::column_major : ExpandedScales::row_major, x_sf,
                      columns ? whole_columns(out_sf) : out_sf};
    sf.from.element = sf.to.element = u32;
    if (sf.from.extents[0] <= 1) sf.from.strides[0] = align_up(sf.from.extents[1], 4);
    if (sf.from.extents[1] <= 1) sf.from.strides[1] = 1;
    const bool dense_rows = sf.from.strides[1] == 1 && sf.from.extents[1] % 4 == 0;
    if (!columns && dense_rows && common_alignment({sf.from, sf.to}) == 16)
        sf.layout = ExpandedScales::row_major_vectors;
    return sf;
}

Tensor empty_columns(const Stream& stream, Element element, std::int64_t rows, std::int64_t columns) {
    const std::int64_t run = align_up(rows, 4);
    const Tensor memory = Tensor::empty(stream, element, {columns, run});
    return Tensor::adopt(TensorView::of(stream.device(), memory.data(), element, {rows, columns}, {1, run}),
                         std::make_shared<Tensor>(memory));
}

}  // namespace

Program expand_to_fused_program(int word_bytes, std::int64_t row_words, std::int64_t topk, int align,
                                ExpandedScales scales, std::int64_t scale_words) {
    switch (word_bytes) {
        case 1: return recorded<u8>(row_words, topk, align, scales, scale_words);
        case 2: return recorded<u16>(row_words, topk, align, scales, scale_words);
        case 4: return recorded<u32>(row_words, topk, align, scales, scale_words);
        default: throw UsageError(fmt::format("expand_to_fused: words of {} bytes; they have 1, 2 or 4", word_bytes));
    }
}

void expand_to_fused(const Stream& stream, const TensorView& x, const TensorView& token_topk_to_pos,
                     const TensorView& pos_to_expert, const TensorView& out) {
    check("expand_to_fused", stream, x, token_topk_to_pos, pos_to_expert);
    check_dense("expand_to_fused", "out", stream, out, x.element, {pos_to_expert.extents[0], x.extents[1]});
    check_apart("expand_to_fused", "out", out, "x", x);
    launch(stream, x, token_topk_to_pos, pos_to_expert, out, {});
}

Tensor expand_to_fused(const Stream& stream, const TensorView& x, const TensorView& token_topk_to_pos,
                       const TensorView& pos_to_expert) {
    check("expand_to_fused", stream, x, token_topk_to_pos, pos_to_expert);
    Tensor out = Tensor::empty(stream, x.element, {pos_to_expert.extents[0], x.extents[1]});
    launch(stream, x, token_topk_to_pos, pos_to_expert, out, {});
    return out;
}

void expand_to_fused_with_sf(const Stream& stream, const TensorView& x, const TensorView& x_sf,
                             const TensorView& token_topk_to_pos, const TensorView& pos_to_expert,
                             const TensorView& out, const TensorView& out_sf, const ScaledExpandOptions& options) {
    check(with_sf, stream, x, token_topk_to_pos, pos_to_expert);
    check_scale_options(x, x_sf, stream, options);
    const std::int64_t positions = pos_to_expert.extents[0];
    check_dense(with_sf, "out", stream, out, x.element, {positions, x.extents[1]});
    check_apart(with_sf, "out", out, "x", x);
    check_apart(with_sf, "out_sf", out_sf, "x_sf", x_sf);
    const ScaleArguments sf = scale_arguments(stream, x_sf, out_sf, positions, options.column_major_sf);
    launch(stream, x, token_topk_to_pos, pos_to_expert, out, sf);
}

Expanded expand_to_fused_with_sf(const Stream& stream, const TensorView& x, const TensorView& x_sf,
                                 const TensorView& token_topk_to_pos, const TensorView& pos_to_expert,
                                 const ScaledExpandOptions& options) {
    check(with_sf, stream, x, token_topk_to_pos, pos_to_expert);
    check_scale_options(x, x_sf, stream, options);
    const std::int64_t positions = pos_to_expert.extents[0], words = x_sf.extents[1];
    Expanded result{Tensor::empty(stream, x.element, {positions, x.extents[1]}),
                    options.column_major_sf ? empty_columns(stream, x_sf.element, positions, words)
                                            : Tensor::empty(stream, x_sf.element, {positions, words})};
    expand_to_fused_with_sf(stream, x, x_sf, token_topk_to_pos, pos_to_expert, result.data, result.sf, options);
    return result;
}

}  // namespace tessera::moe

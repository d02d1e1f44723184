#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "kernels/engram.hpp"
#include "kernels/engram/check.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

// One remainder a thread: a block takes one layer and one length of n-grams, and spreads tokens and tables over its
// threads. Every thread hashes its own token; that costs less than handing hashes round.

namespace tessera::engram {

namespace {

constexpr const char* name = "engram_hash";
constexpr int threads = 256;
/// Columns written out one by one, so that the loads of several are under way at once.
constexpr std::int64_t most_unrolled = 16;

std::int64_t columns_of(const HashInputs& in) { return in.ngram_token_ids.extents[1]; }

/// Of the output.
Shape check_inputs(const Stream& stream, const HashInputs& in) {
    check_kind(name, "ngram_token_ids", stream, in.ngram_token_ids, i32, 2);
    const std::int64_t tokens = in.ngram_token_ids.extents[0], columns = columns_of(in);
    if (columns < 2)
        throw UsageError(
            fmt::format("{}: ngram_token_ids has extents {}; an n-gram has at least 2 columns, else nothing is hashed",
                        name, text_of(in.ngram_token_ids.extents)));
    check_dense(name, "ngram_token_ids", stream, in.ngram_token_ids, i32, {tokens, columns});
    check_kind(name, "vocab_sizes", stream, in.vocab_sizes, i32, 3);
    const std::int64_t layers = in.vocab_sizes.extents[0], tables = in.vocab_sizes.extents[2];
    check_dense(name, "vocab_sizes", stream, in.vocab_sizes, i32, {layers, columns - 1, tables});
    check_dense(name, "multipliers", stream, in.multipliers, i64, {layers, columns});
    check_dense(name, "offsets", stream, in.offsets, i32, {layers, (columns - 1) * tables});
    return {layers, tokens, (columns - 1) * tables};
}

/// The same memory by length of n-gram and table; lengths ahead of tokens.
TensorView by_length(const TensorView& out, std::int64_t lengths, std::int64_t tables) {
    const std::int64_t layers = out.extents[0], tokens = out.extents[1], row = lengths * tables;
    return TensorView::of(out.device, out.data, i32, {layers, lengths, tokens, tables}, {tokens * row, tables, row, 1});
}

void launch(const Stream& stream, const HashInputs& in, const TensorView& out) {
    if (out.count() == 0) return;
    const std::int64_t columns = columns_of(in), lengths = columns - 1, tables = in.vocab_sizes.extents[2];
    const auto by_pair = [&](TensorView view) {
        view.extents = {in.vocab_sizes.extents[0] * lengths, tables}, view.strides = {tables, 1};
        return view;
    };
    Engine::of(stream)
        .kernel(stream, KernelId(name, {columns, tables}), [&] { return hash_program(columns, tables); })
        .launch(stream, {in.ngram_token_ids, in.multipliers, by_pair(in.vocab_sizes), by_pair(in.offsets),
                         by_length(out, lengths, tables)});
}

}  // namespace

Program hash_program(std::int64_t columns, std::int64_t tables) {
    return record(name, [=](Kernel& k) {
        const std::int64_t lengths = columns - 1;
        const auto wide = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tables)));
        const std::int64_t cols = std::min<std::int64_t>(wide, threads), rows = threads / cols;
        const Dim layers = k.dim("layers"), tokens = k.dim("tokens");
        const auto ids = k.input<i32>("ngram_token_ids", {tokens, columns}, {.align = 4});
        const auto multipliers = k.input<i64>("multipliers", {layers, columns}, {.align = 8});
        const auto sizes = k.input<i32>("vocab_sizes", {layers * lengths, tables}, {.align = 4});
        const auto offsets = k.input<i32>("offsets", {layers * lengths, tables}, {.align = 4});
        const auto out =
            k.output<i32>("indices", {layers, lengths, tokens, tables},
                          {.align = 4, .strides = {tokens * (lengths * tables), tables, lengths * tables, 1}});
        k.threads(threads);
        const auto [pair, m, e] = k.grid(layers * lengths, ceil_div(tokens, rows), ceil_div(tables, cols));
        const Index layer = pair / lengths, length = pair % lengths;

        auto h = k.variable(full({rows, cols}, Value<u64, 0>(0u)));
        const auto mix = [&](const Index& n) {
            const auto id = cast<i64>(load(ids.window({rows, 1}, {m * rows, n})));
            const auto product = bitcast<u64>(id) * bitcast<u64>(load(multipliers[layer][n]));
            h = h.get() ^ select(n <= length + 1, product, Value<u64, 0>(0u));
        };
        if (columns <= most_unrolled)
            k.unrolled(columns, mix);
        else
            k.serial(columns, mix);

        const auto size = load(sizes[pair].block({cols}, {e}), 1);
        k.report(size < 1, "a table has at least one row", sizes[pair].block({cols}, {e}), size);
        const auto positive = cast<i64>(max(size, 1)).unsqueeze(axis<0>);
        const auto rest = bitcast<i64>(h.get()) % positive;
        const auto row = select(rest < 0, rest + positive, rest);
        const auto offset = bitcast<u32>(load(offsets[pair].block({cols}, {e}))).unsqueeze(axis<0>);
        store(out[layer][length].block({rows, cols}, {m, e}), bitcast<i32>(cast<u32>(row) + offset));
    });
}

void hash(const Stream& stream, const HashInputs& inputs, const TensorView& out) {
    const Shape extents = check_inputs(stream, inputs);
    check_dense(name, "out", stream, out, i32, extents);
    launch(stream, inputs, out);
}

Tensor hash(const Stream& stream, const HashInputs& inputs) {
    Tensor out = Tensor::empty(stream, i32, check_inputs(stream, inputs));
    launch(stream, inputs, out);
    return out;
}

}  // namespace tessera::engram

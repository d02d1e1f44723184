#include <bit>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/kernel.hpp"
#include "kernels/check.hpp"
#include "kernels/transpose.hpp"
#include "runtime/compiled_kernel.hpp"
#include "runtime/engine.hpp"

namespace tessera::transpose {

namespace {

/// A tile of the input, and the square that each thread turns in its registers.
struct Tile {
    std::int64_t rows, cols, square;
    int threads;
};

constexpr Tile aligned_tile(int bytes) {
    switch (bytes) {
        case 1: return {128, 128, 16, 64};
        case 2: return {128, 128, 8, 256};
        default: return {64, 64, 4, 256};
    }
}

/// Shared rows are output rows. Chunks of 16 bytes are XORed with the number of the square that a row belongs to, so
/// that squares are written, and rows read, without bank conflicts.
SwizzleOptions by_squares(const Tile& t) {
    return {3, std::countr_zero(static_cast<unsigned>(t.square)), std::countr_zero(static_cast<unsigned>(t.rows))};
}

/// Words are XORed with the row: columns are written element by element, each lane to a bank of its own. Rows of
/// one-byte elements fill half the banks, so there two rows share a pattern.
SwizzleOptions by_rows(int bytes, std::int64_t rows) {
    const int base = bytes == 4 ? 0 : bytes == 2 ? 1 : 2;
    const int row = std::countr_zero(static_cast<unsigned>(rows)) - base;
    return bytes == 1 ? SwizzleOptions{4, base, row + 1} : SwizzleOptions{5, base, row};
}

template <Element T>
Program recorded(bool aligned) {
    return record("batched_transpose", [=](Kernel& k) {
        constexpr int bytes = bits_of(T) / 8;
        const Tile tile = aligned ? aligned_tile(bytes) : Tile{64, 64, 1, 256};
        const MultipleOf fact = multiple_of(aligned ? 16 / bytes : 1);
        const int align = aligned ? 16 : bytes;
        const Dim batches = k.dim("batches"), rows = k.dim("rows", fact), cols = k.dim("cols", fact);
        const Dim x_batch = k.dim("x_batch", fact), x_pitch = k.dim("x_pitch", fact);
        const auto x = k.input<T>("x", {batches, rows, cols}, {.align = align, .strides = {x_batch, x_pitch, 1}});
        const auto y = k.output<T>("y", {batches, cols, rows}, {.align = align});
        k.threads(tile.threads, 1);
        const auto [b, m, n] = k.grid(batches, ceil_div(rows, tile.rows), ceil_div(cols, tile.cols));

        const auto turned =
            k.shared<T>("turned", {tile.cols, tile.rows}, aligned ? by_squares(tile) : by_rows(bytes, tile.rows));
        const auto v = load(x[b].block({tile.rows, tile.cols}, {m, n}), {.per_thread = {tile.square, tile.square}});
        store(turned.whole(), v.template permute<1, 0>());
        store(y[b].block({tile.cols, tile.rows}, {n, m}), load(turned.whole()));
    });
}

void check(const char* function, const Stream& stream, const TensorView& x) {
    const int bits = bits_of(x.element);
    if (bits != 8 && bits != 16 && bits != 32)
        throw UsageError(fmt::format("{}: x is {}; elements have 1, 2 or 4 bytes", function, name_of(x.element)));
    const int last = x.rank() - 1;
    if (x.count() > 0 && x.extents[last] > 1 && x.strides[last] != 1)
        throw UsageError(fmt::format("{}: x has strides {}; the inner stride must be 1; copy it first", function,
                                     text_of(x.strides)));
    for (std::int64_t s : x.strides)
        if (s < 0)
            throw UsageError(
                fmt::format("{}: x has strides {}; none may be negative; copy it first", function, text_of(x.strides)));
    check_device(function, "x", stream, x);
}

void check_rank(const char* function, const TensorView& x, int rank) {
    if (x.rank() != rank)
        throw UsageError(fmt::format("{}: x has rank {} (extents {}); it takes rank {}", function, x.rank(),
                                     text_of(x.extents), rank));
}

void check_output(const char* function, const TensorView& out, Element element, const Shape& extents) {
    if (out.element != element || !(out.extents == extents) || !out.is_contiguous())
        throw UsageError(fmt::format("{}: out is {} {} with strides {}, but must be {} {} and dense", function,
                                     name_of(out.element), text_of(out.extents), text_of(out.strides), name_of(element),
                                     text_of(extents)));
}

Shape turned(const TensorView& x) { return {x.extents[0], x.extents[2], x.extents[1]}; }

/// x as (1, M, N).
TensorView one_batch(const TensorView& x) {
    TensorView result = x;
    result.extents = {1, x.extents[0], x.extents[1]};
    result.strides = {0, x.strides[0], x.strides[1]};
    return result;
}

/// A view under another element type of the same width, with the strides that extents of 1 leave open set to fit.
TensorView as_words(const TensorView& t, Element word) {
    TensorView result = t;
    result.element = word;
    const std::int64_t fit = 16;
    if (t.extents[0] == 1) result.strides[0] = 0;
    if (t.extents[1] == 1) result.strides[1] = (t.extents[2] + fit - 1) / fit * fit;
    result.strides[2] = 1;
    return result;
}

void launch(const Stream& stream, const TensorView& x, const TensorView& out) {
    const int bytes = bits_of(x.element) / 8;
    const Element word = bytes == 1 ? u8 : bytes == 2 ? u16 : u32;
    const TensorView from = as_words(x, word);
    TensorView to = TensorView::of(out.device, out.data, word, out.extents);
    to.read_only = out.read_only;
    std::int64_t all = 0;
    for (std::int64_t n : {from.extents[1], from.extents[2], from.strides[0], from.strides[1]}) all |= n * bytes;
    const auto addresses = reinterpret_cast<std::uintptr_t>(from.data) | reinterpret_cast<std::uintptr_t>(to.data);
    const bool aligned = all % 16 == 0 && addresses % 16 == 0;
    const KernelId id("batched_transpose", {bytes, aligned});
    Engine::of(stream)
        .kernel(stream, id, [&] { return batched_transpose_program(bytes, aligned); })
        .launch(stream, {from, to});
}

}  // namespace

Program batched_transpose_program(int element_bytes, bool aligned) {
    switch (element_bytes) {
        case 1: return recorded<u8>(aligned);
        case 2: return recorded<u16>(aligned);
        case 4: return recorded<u32>(aligned);
        default:
            throw UsageError(
                fmt::format("batched_transpose: elements of {} bytes; they have 1, 2 or 4", element_bytes));
    }
}

void batched_transpose(const Stream& stream, const TensorView& x, const TensorView& out) {
    check_rank("batched_transpose", x, 3);
    check("batched_transpose", stream, x);
    check_output("batched_transpose", out, x.element, turned(x));
    check_apart("batched_transpose", "out", out, "x", x);
    if (x.count() > 0) launch(stream, x, out);
}

Tensor batched_transpose(const Stream& stream, const TensorView& x) {
    check_rank("batched_transpose", x, 3);
    check("batched_transpose", stream, x);
    Tensor out = Tensor::empty(stream, x.element, turned(x));
    batched_transpose(stream, x, out);
    return out;
}

void transpose(const Stream& stream, const TensorView& x, const TensorView& out) {
    check_rank("transpose", x, 2);
    check("transpose", stream, x);
    check_output("transpose", out, x.element, {x.extents[1], x.extents[0]});
    check_apart("transpose", "out", out, "x", x);
    if (x.count() > 0) launch(stream, one_batch(x), one_batch(out));
}

Tensor transpose(const Stream& stream, const TensorView& x) {
    check_rank("transpose", x, 2);
    check("transpose", stream, x);
    Tensor out = Tensor::empty(stream, x.element, {x.extents[1], x.extents[0]});
    transpose(stream, x, out);
    return out;
}

}  // namespace tessera::transpose

#include <exception>
#include <fmt/core.h>
#include <tessera/moe.hpp>

#include "tests/support/extents.hpp"
#include "tests/support/inputs.hpp"
#include "tests/support/kernels/guarded.hpp"
#include "tests/support/kernels/moe_check.hpp"
#include "tests/support/kernels/reported.hpp"
#include "tests/support/kernels/scale_memory.hpp"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const std::vector<std::int32_t>& numbers) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(numbers.data());
    return {first, first + numbers.size() * 4};
}

/// The scales of one call: as words of rows, and as they lie.
struct Scales {
    std::int64_t columns, run;  // words of a row; words from column to column of the output
    bool in_columns;
    Bytes in;

    Scales(const ExpandCase& c)
        : columns((c.hidden + c.num_per_channels - 1) / c.num_per_channels),
          run(round_up(c.positions, 4) + c.gap),
          in_columns(c.scales == ExpandCase::Scales::columns) {
        if (c.packed) columns = (columns + 3) / 4;
        in = random_bytes(static_cast<std::size_t>(c.tokens * columns * 4), c.seed + 1);
    }
    std::int64_t out_bytes(std::int64_t positions) const { return (in_columns ? run : positions) * columns * 4; }
    /// Rows as expand gives them, in the memory that they belong in; padding of columns is 0, gaps keep the sentinel.
    Bytes laid_out(const Bytes& rows, std::int64_t positions) const {
        if (!in_columns) return rows;
        Bytes memory(static_cast<std::size_t>(out_bytes(positions)), sentinel);
        for (std::int64_t column = 0; column < columns; ++column)
            for (std::int64_t p = 0; p < round_up(positions, 4); ++p)
                for (std::int64_t b = 0; b < 4; ++b)
                    memory[(column * run + p) * 4 + b] =
                        p < positions ? rows[(p * columns + column) * 4 + b] : std::uint8_t{0};
        return memory;
    }
};

std::string compare(const char* what, const Bytes& got, const Bytes& expected, std::int64_t row) {
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (got[i] != expected[i])
            return fmt::format("byte {} of row {} of {} is {:#04x}, the reference has {:#04x}", i % row, i / row, what,
                               got[i], expected[i]);
    return "";
}

std::string check(const Device& device, const ExpandCase& c) {
    const std::int64_t size = bits_of(c.type) / 8, row = c.hidden * size;
    const reference::Mapping map = c.mapping();
    const std::int64_t span = c.tokens == 0 ? 0 : (c.tokens - 1) * c.pitch + c.hidden;
    const Bytes values = random_bytes(static_cast<std::size_t>(span * size), c.seed);
    const Bytes untouched(static_cast<std::size_t>(c.positions * row), sentinel);
    const Bytes expected = reference::expand({values.data(), c.tokens, row, c.pitch * size}, map, untouched);
    const Scales sf(c);
    const Bytes sf_before(static_cast<std::size_t>(c.positions * sf.columns * 4), sentinel);
    const Bytes sf_expected = sf.laid_out(
        reference::expand({sf.in.data(), c.tokens, sf.columns * 4, sf.columns * 4}, map, sf_before), c.positions);

    const Stream stream = device.stream();
    const Guarded x(stream, values, c.shift * size), slots(stream, bytes_of(map.token_topk_to_pos)),
        expert(stream, bytes_of(map.pos_to_expert)), scales(stream, sf.in);
    const Guarded out(stream, c.positions * row), out_sf(stream, sf.out_bytes(c.positions));
    const TensorView in = x.view(c.type, {c.tokens, c.hidden}, {c.pitch, 1});
    const TensorView to = slots.view(i32, {c.tokens, c.topk}, {c.topk, 1});
    const TensorView padding = expert.view(i32, {c.positions}, {1});
    const TensorView result = out.view(c.type, {c.positions, c.hidden}, {c.hidden, 1});
    const std::string said = reported_by(stream, [&] {
        if (c.scales == ExpandCase::Scales::none) return moe::expand_to_fused(stream, in, to, padding, result);
        const Element type = c.packed ? i32 : f32;
        moe::expand_to_fused_with_sf(
            stream, in, scales.view(type, {c.tokens, sf.columns}, {sf.columns, 1}), to, padding, result,
            out_sf.view(type, {c.positions, sf.columns}, sf.in_columns ? Shape{1, sf.run} : Shape{sf.columns, 1}),
            {c.num_per_channels, sf.in_columns});
    });
    std::string wrong = compare_report(said, c.stray());
    if (wrong.empty()) wrong = compare("the result", out.read(stream), expected, row);
    if (wrong.empty() && c.scales != ExpandCase::Scales::none)
        wrong = compare("the scales", out_sf.read(stream), sf_expected, sf.in_columns ? sf.run * 4 : sf.columns * 4);
    if (wrong.empty() && x.read(stream) != values) wrong = "the input has changed";
    return wrong;
}

/// The forms that return tensors: type, extents and strides; the rows of slots as the reference has them.
std::string check_returned(const Device& device, const ExpandCase& c) {
    const Stream stream = device.stream();
    const reference::Mapping map = c.mapping();
    const std::int64_t size = bits_of(c.type) / 8, row = c.hidden * size;
    const Bytes values = random_bytes(static_cast<std::size_t>(c.tokens * row), c.seed);
    const Bytes blank(static_cast<std::size_t>(c.positions * row), sentinel);
    const Bytes expected = reference::expand({values.data(), c.tokens, row, row}, map, blank);
    const Scales sf(c);
    const Guarded x(stream, values), slots(stream, bytes_of(map.token_topk_to_pos)),
        expert(stream, bytes_of(map.pos_to_expert)), scales(stream, sf.in);
    const TensorView in = x.view(c.type, {c.tokens, c.hidden}, {c.hidden, 1});
    const TensorView to = slots.view(i32, {c.tokens, c.topk}, {c.topk, 1});
    const TensorView padding = expert.view(i32, {c.positions}, {1});
    Tensor data;
    if (c.scales == ExpandCase::Scales::none) {
        data = moe::expand_to_fused(stream, in, to, padding);
    } else {
        const Element type = c.packed ? i32 : f32;
        const moe::Expanded both =
            moe::expand_to_fused_with_sf(stream, in, scales.view(type, {c.tokens, sf.columns}, {sf.columns, 1}), to,
                                         padding, {c.num_per_channels, sf.in_columns});
        data = both.data;
        const Shape strides = sf.in_columns ? Shape{1, round_up(c.positions, 4)} : Shape{sf.columns, 1};
        if (both.sf.element() != type || !(both.sf.extents() == Shape{c.positions, sf.columns}) ||
            (both.sf.count() > 0 && !(both.sf.strides() == strides)))
            return "the returned scales have another type, other extents or other strides";
    }
    if (data.element() != c.type || !(data.extents() == Shape{c.positions, c.hidden}))
        return "the returned tensor has another type or other extents";
    const Bytes got = memory_of(stream, data, expected.size());
    for (std::int64_t i = 0; i < c.positions * row; ++i)
        if (expected[i] != sentinel && got[i] != expected[i])  // rows that nothing names hold anything
            return fmt::format("byte {} of row {} of the returned tensor is wrong", i % row, i / row);
    return "";
}

}  // namespace

std::string check_expand_to_fused(const Device& device, const ExpandCase& c) {
    try {
        std::string wrong = check(device, c);
        if (wrong.empty() && c.stray().empty()) wrong = check_returned(device, c);
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace tessera::test

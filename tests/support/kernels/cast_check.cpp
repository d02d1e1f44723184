#include <exception>
#include <tessera/quant.hpp>

#include "tests/support/inputs.hpp"
#include "tests/support/kernels/checks.hpp"
#include "tests/support/kernels/scale_memory.hpp"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// The values of a case, on a device and for the reference.
struct Input {
    Bytes values;
    Guarded memory;
    TensorView view;
    reference::Matrix matrix;

    Input(const Stream& stream, const CastCase& c)
        : values(hard_values(c.type, c.tokens == 0 ? 0 : (c.tokens - 1) * c.pitch + c.hidden, c.seed, c.format)),
          memory(stream, values, c.shift * (bits_of(c.type) / 8)),
          view(memory.view(c.type, {c.tokens, c.hidden}, {c.pitch, 1})),
          matrix{values.data(), c.type == bf16, c.tokens, c.hidden, c.pitch} {}

    std::string unchanged(const Stream& stream) const {
        return memory.read(stream) == values ? "" : "the input has changed";
    }
};

template <class Body>
std::string on_device(const Device& device, const CastCase& c, Body&& body) {
    try {
        const std::string wrong = body(device.stream());
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

std::int64_t row_bytes(const CastCase& c) { return c.hidden * reference::bits_of(c.format) / 8; }

template <class Given, class Returned>
std::string check_cast(const Device& device, const CastCase& c, Given&& given, Returned&& returned) {
    return on_device(device, c, [&](const Stream& stream) -> std::string {
        const Input x(stream, c);
        const reference::Quantized expected = reference::quantize(x.matrix, c.rule());
        const ScaleMemory sf(c.tokens, c.hidden, c.rule(), c.scale_gap);
        const Guarded codes(stream, static_cast<std::int64_t>(expected.codes.size()), c.shift_out);
        const Guarded scales(stream, sf.bytes());
        given(stream, x.view, codes.view(element_of(c.format), {c.tokens, c.hidden}, {c.hidden, 1}),
              scales.view(sf.element, sf.extents, sf.strides));
        stream.synchronize();
        std::string wrong = compare_codes(codes.read(stream), expected.codes, row_bytes(c));
        if (wrong.empty()) wrong = compare_scales(scales.read(stream), sf.laid_out(expected.scales));
        if (wrong.empty()) wrong = x.unchanged(stream);
        if (!wrong.empty()) return wrong;
        return check_returned(stream, returned(stream, x.view), expected, c.tokens, c.hidden, c.rule());
    });
}

quant::CastOptions token_options(const CastCase& c) {
    return {element_of(c.format), c.block_columns, layout_of(c.scales), c.round};
}
quant::BlockCastOptions block_options(const CastCase& c) {
    return {element_of(c.format), c.block_rows, c.block_columns, layout_of(c.scales), c.round};
}

}  // namespace

std::string check_per_token_cast(const Device& device, const CastCase& c) {
    const quant::CastOptions options = token_options(c);
    return check_cast(
        device, c,
        [&](const Stream& stream, const TensorView& x, const TensorView& out, const TensorView& sf) {
            quant::per_token_cast(stream, x, out, sf, options);
        },
        [&](const Stream& stream, const TensorView& x) { return quant::per_token_cast(stream, x, options); });
}

std::string check_per_block_cast(const Device& device, const CastCase& c) {
    const quant::BlockCastOptions options = block_options(c);
    return check_cast(
        device, c,
        [&](const Stream& stream, const TensorView& x, const TensorView& out, const TensorView& sf) {
            quant::per_block_cast(stream, x, out, sf, options);
        },
        [&](const Stream& stream, const TensorView& x) { return quant::per_block_cast(stream, x, options); });
}

std::string check_sf_only(const Device& device, const CastCase& c) {
    return on_device(device, c, [&](const Stream& stream) -> std::string {
        const Input x(stream, c);
        const reference::Quantized expected = reference::quantize(x.matrix, c.rule());
        const ScaleMemory sf(c.tokens, c.hidden, c.rule(), c.scale_gap), dense(c.tokens, c.hidden, c.rule(), 0);
        const Guarded scales(stream, sf.bytes());
        const TensorView given = scales.view(sf.element, sf.extents, sf.strides);
        const bool blocks = c.block_rows > 1;
        blocks ? quant::per_block_cast_with_sf_only(stream, x.view, given, block_options(c))
               : quant::per_token_cast_with_sf_only(stream, x.view, given, token_options(c));
        stream.synchronize();
        std::string wrong = compare_scales(scales.read(stream), sf.laid_out(expected.scales));
        if (wrong.empty()) wrong = x.unchanged(stream);
        if (!wrong.empty()) return wrong;
        const Tensor returned = blocks ? quant::per_block_cast_with_sf_only(stream, x.view, block_options(c))
                                       : quant::per_token_cast_with_sf_only(stream, x.view, token_options(c));
        if (returned.element() != dense.element || !(returned.extents() == dense.extents))
            return "the returned scales have another type or other extents";
        const Bytes all = dense.laid_out(expected.scales);
        return compare_scales(memory_of(stream, returned, all.size()), all);
    });
}

std::string check_precomputed_sf(const Device& device, const CastCase& c) {
    return on_device(device, c, [&](const Stream& stream) -> std::string {
        const Input x(stream, c);
        const std::int64_t rows = (c.tokens + c.block_rows - 1) / c.block_rows;
        const std::int64_t groups = (c.hidden + c.block_columns - 1) / c.block_columns;
        const std::vector<float> sf = random_scales(rows * groups, false, c.seed + 1);
        const Bytes expected = reference::quantize_with(x.matrix, sf, c.rule());
        const Tensor scales = Tensor::from_host(stream, f32, {rows, groups}, sf.data());
        const Guarded codes(stream, static_cast<std::int64_t>(expected.size()), c.shift_out);
        const Element format = element_of(c.format);
        const TensorView given = codes.view(format, {c.tokens, c.hidden}, {c.hidden, 1});
        const bool blocks = c.block_rows > 1;
        blocks ? quant::per_block_cast_with_precomputed_sf(stream, x.view, scales, given, c.block_rows, c.block_columns)
               : quant::per_token_cast_with_precomputed_sf(stream, x.view, scales, given, c.block_columns);
        stream.synchronize();
        std::string wrong = compare_codes(codes.read(stream), expected, row_bytes(c));
        if (wrong.empty()) wrong = x.unchanged(stream);
        if (!wrong.empty()) return wrong;
        const Tensor returned =
            blocks ? quant::per_block_cast_with_precomputed_sf(stream, x.view, scales, c.block_rows, c.block_columns,
                                                               format)
                   : quant::per_token_cast_with_precomputed_sf(stream, x.view, scales, c.block_columns, format);
        if (returned.element() != format || !(returned.extents() == Shape{c.tokens, c.hidden}))
            return "the returned codes have another type or other extents";
        return compare_codes(memory_of(stream, returned, expected.size()), expected, row_bytes(c));
    });
}

}  // namespace tessera::test

#include <exception>
#include <fmt/core.h>

#include "kernels/quant_lossless.hpp"
#include "tests/support/kernels/reported.hpp"
#include "tests/support/kernels/scale_memory.hpp"
#include "tests/support/lossless_cases.hpp"

namespace tessera::test {
namespace {

using reference::Breach;

/// What is reported of a breach, without the scale itself.
std::string where_of(const Breach& breach) { return fmt::format("x_sf[{}, {}] is ", breach.m, breach.k); }
const char* rule_of(const Breach& breach) {
    constexpr const char* rules[] = {"a scale is a positive power of two", "at least 2^-11 times the largest one",
                                     "at least 2^-120"};
    return rules[static_cast<int>(breach.rule)];
}

/// The case's input on a device.
struct Input {
    reference::Quantized values;
    std::vector<std::uint8_t> scale_bytes;
    Guarded codes, scales;
    quant::QuantizedView view;

    Input(const Stream& stream, const LosslessCase& c, const ScaleMemory& layout)
        : values(c.input()),
          scale_bytes(layout.laid_out(values.scales)),
          codes(stream, values.codes, c.shift),
          scales(stream, scale_bytes) {
        view.data = codes.view(e2m1, {c.tokens, c.hidden}, {c.hidden, 1});
        view.sf = scales.view(layout.element, layout.extents, layout.strides);
        view.scale_layout = layout_of(c.from.scales);
        view.block_rows = c.from.block_rows;
        view.block_columns = c.from.block_columns;
    }
    std::string unchanged(const Stream& stream) const {
        if (codes.read(stream) != values.codes) return "the codes of the input have changed";
        return scales.read(stream) == scale_bytes ? "" : "the scales of the input have changed";
    }
};

std::string checked(const Stream& stream, const LosslessCase& c) {
    const Input x(stream, c, ScaleMemory(c.tokens, c.hidden, c.from, c.scale_gap));
    const reference::Lossless expected = reference::coarsen(x.values, c.tokens, c.hidden, c.from, c.to);
    const ScaleMemory sf(c.tokens, c.hidden, c.to, c.out_scale_gap);
    const Guarded data(stream, c.tokens * c.hidden, c.out_shift), scales(stream, sf.bytes());
    const quant::LosslessOptions options{c.to.block_rows, c.to.block_columns, layout_of(c.to.scales)};
    const std::string said = reported_by(stream, [&] {
        quant::per_block_cast_lossless(stream, x.view, data.view(e4m3, {c.tokens, c.hidden}, {c.hidden, 1}),
                                       scales.view(sf.element, sf.extents, sf.strides), options);
    });
    const auto codes = data.read(stream), scale_bytes = scales.read(stream);
    std::string wrong = x.unchanged(stream);
    if (!wrong.empty()) return wrong;
    if (expected.breach) {
        wrong = compare_report(said, where_of(*expected.breach));
        return wrong.empty() ? compare_report(said, rule_of(*expected.breach)) : wrong;
    }
    if (!said.empty()) return "reports " + said;
    wrong = compare_codes(codes, expected.out.codes, c.hidden);
    if (wrong.empty()) wrong = compare_scales(scale_bytes, sf.laid_out(expected.out.scales));
    if (!wrong.empty()) return wrong;
    return check_returned(stream, quant::per_block_cast_lossless(stream, x.view, options), expected.out, c.tokens,
                          c.hidden, c.to);
}

}  // namespace

std::string check_lossless(const Device& device, const LosslessCase& c) {
    try {
        const std::string wrong = checked(device.stream(), c);
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace tessera::test

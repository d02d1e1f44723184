#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/quant.hpp"
#include "tools/tessera/device_tensor.hpp"
#include "tools/tessera/kernels.hpp"

namespace tessera::tool {

namespace {

struct Scales {
    quant::ScaleLayout layout;
    bool rounded;
};

/// "sf" of the golden files: one word for layout and rounding; without it `round_sf` alone.
Scales scales_of(const Arguments& args) {
    const std::string kind = args.text("sf", "");
    const bool rounded = args.flag("round_sf", false);
    if (kind.empty()) return {quant::ScaleLayout::row_major, rounded};
    if (kind == "rowf") return {quant::ScaleLayout::row_major, false};
    if (kind == "rowp2") return {quant::ScaleLayout::row_major, true};
    if (kind == "colf") return {quant::ScaleLayout::column_major, false};
    if (kind == "colp2") return {quant::ScaleLayout::column_major, true};
    if (kind == "packed") return {quant::ScaleLayout::packed_ue8m0, true};
    throw UsageError(
        fmt::format("{}: sf is {}; use rowf, rowp2, colf, colp2 or packed", args.where(), json::shown(kind)));
}

std::optional<std::string> format_not_written(const Arguments& args) {
    const std::string format = args.text("fmt", "e4m3");
    if (format == "e4m3") return std::nullopt;
    if (format == "e2m1" || format == "e5m6") return fmt::format("the output format {} is not written yet", format);
    throw UsageError(fmt::format("{}: fmt is {}; use e4m3", args.where(), json::shown(format)));
}

quant::CastOptions token_options(const Arguments& args) {
    const Scales scales = scales_of(args);
    return {Element::e4m3, args.number("num_per_channels", 128), scales.layout, scales.rounded};
}

quant::BlockCastOptions block_options(const Arguments& args) {
    const Scales scales = scales_of(args);
    const std::vector<std::int64_t> block = args.numbers("block_size", {128, 128});
    if (block.size() != 2) {
        throw UsageError(fmt::format("{}: block_size has {} numbers; give rows and columns, such as 128x128",
                                     args.where(), block.size()));
    }
    return {Element::e4m3, block[0], block[1], scales.layout, scales.rounded};
}

void check_hidden(const Case& the_case) {
    const CaseTensor& x = *the_case.input("x");
    const std::int64_t said = the_case.args.number("hidden", x.shape.empty() ? 0 : x.shape.back());
    if (x.shape.size() != 2 || said != x.shape[1]) {
        throw UsageError(fmt::format("{}: the option hidden is {}, but the input x is {}; correct one of them",
                                     the_case.file, said, json::list(x.shape)));
    }
}

std::vector<Result> downloaded(const Stream& stream, const quant::Quantized& pair, quant::ScaleLayout layout) {
    std::vector<Result> results;
    results.push_back(download(stream, "out", pair.data));
    results.push_back(layout == quant::ScaleLayout::row_major ? download(stream, "sf", pair.sf)
                                                              : download_columns(stream, "sf", pair.sf));
    return results;
}

std::vector<Result> run_token_cast(const Stream& stream, const Case& the_case) {
    check_hidden(the_case);
    const quant::CastOptions options = token_options(the_case.args);
    const DeviceTensor x(stream, *the_case.input("x"));
    return downloaded(stream, quant::per_token_cast(stream, x, options), options.scale_layout);
}

std::vector<Result> run_block_cast(const Stream& stream, const Case& the_case) {
    check_hidden(the_case);
    const quant::BlockCastOptions options = block_options(the_case.args);
    const DeviceTensor x(stream, *the_case.input("x"));
    return downloaded(stream, quant::per_block_cast(stream, x, options), options.scale_layout);
}

Rule packed_rule(const Case& the_case, const std::string& output, std::int64_t block_columns) {
    const bool packed = scales_of(the_case.args).layout == quant::ScaleLayout::packed_ue8m0;
    if (output != "sf" || !packed) return {};
    return {(the_case.input("x")->shape.back() + block_columns - 1) / block_columns};
}

Rule token_rule(const Case& the_case, const std::string& output) {
    return packed_rule(the_case, output, token_options(the_case.args).num_per_channels);
}

Rule block_rule(const Case& the_case, const std::string& output) {
    return packed_rule(the_case, output, block_options(the_case.args).block_columns);
}

constexpr std::int64_t default_hidden = 7168;

Program token_program(const Arguments& args, const Target&) {
    return quant::per_token_cast_program(input_element(args, {Element::bf16, Element::f32}),
                                         args.number("hidden", default_hidden), token_options(args),
                                         args.flag("aligned", true));
}

Program block_program(const Arguments& args, const Target&) {
    return quant::per_block_cast_program(input_element(args, {Element::bf16, Element::f32}),
                                         args.number("hidden", default_hidden), block_options(args),
                                         args.flag("aligned", true));
}

}  // namespace

void add_quant_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"per_token_cast",
                     "quantizes rows in groups of channels: BF16 or FP32 to E4M3 with scales",
                     {"fmt", "num_per_channels", "sf", "round_sf", "hidden"},
                     {"in_fmt", "in_sf", "x_block_size"},
                     {"x"},
                     {"out", "sf"},
                     format_not_written,
                     run_token_cast,
                     token_rule,
                     token_program});
    table.push_back({"per_block_cast",
                     "quantizes 2-D blocks: BF16 or FP32 to E4M3 with scales",
                     {"fmt", "block_size", "sf", "round_sf", "hidden"},
                     {},
                     {"x"},
                     {"out", "sf"},
                     format_not_written,
                     run_block_cast,
                     block_rule,
                     block_program});
}

}  // namespace tessera::tool

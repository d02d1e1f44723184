#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "tools/tessera/kernels.hpp"
#include "tools/tessera/quant_options.hpp"

// The casts to narrow formats. kernels_cast_back.cpp has those back.

namespace tessera::tool {

namespace {

constexpr std::int64_t default_hidden = 7168;
const std::vector<Element> plain = {Element::bf16, Element::f32};
const std::vector<Element> codes = {Element::e4m3, Element::e2m1};

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }
Rule every_bit(const Case&, const std::string&) { return {}; }

bool from_pair(const Arguments& args) { return args.has("in_fmt"); }

/// Columns of x, counted in values.
std::int64_t hidden_of(const Case& the_case) {
    const CaseTensor& x = *the_case.input("x");
    if (from_pair(the_case.args)) return columns_of(the_case, x, format_option(the_case.args, "in_fmt", codes));
    if (x.shape.size() != 2)
        throw UsageError(fmt::format("{}: x has {} axes; give a matrix", the_case.file, x.shape.size()));
    return x.shape[1];
}

quant::CastOptions token_options(const Arguments& args) {
    const ScaleKind scales = output_scales(args);
    const Element format = format_option(args, "fmt", {Element::e4m3, Element::e2m1, Element::e5m6});
    return {format, args.number("num_per_channels", 128), scales.layout, scales.rounded};
}

/// One scale a row.
quant::CastOptions e5m6_options(const Arguments& args, std::int64_t hidden) {
    const ScaleKind scales = output_scales(args);
    return {Element::e5m6, hidden, scales.layout, scales.rounded, args.flag("round_subnormals", false)};
}

quant::BlockCastOptions block_options(const Arguments& args) {
    const ScaleKind scales = output_scales(args);
    const BlockSize block = block_option(args, "block_size", {128, 128});
    return {format_option(args, "fmt", codes), block.rows, block.columns, scales.layout, scales.rounded};
}

std::vector<Result> downloaded(const Stream& stream, const quant::Quantized& pair, quant::ScaleLayout layout) {
    std::vector<Result> results;
    results.push_back(download_codes(stream, "out", pair.data));
    results.push_back(download_scales(stream, "sf", pair.sf, layout));
    return results;
}

void check_alone(const Case& the_case) {
    if (the_case.input("x_sf"))
        throw UsageError(
            fmt::format("{}: x_sf is given, but without the option in_fmt x is no quantized pair", the_case.file));
}

std::vector<Result> run_token_cast(const Stream& stream, const Case& the_case) {
    const Arguments& args = the_case.args;
    check_hidden(the_case, hidden_of(the_case));
    const quant::CastOptions options = token_options(args);
    if (from_pair(args)) {
        const QuantizedInput x(stream, the_case, format_option(args, "in_fmt", codes),
                               block_option(args, "x_block_size", {1, 128}));
        return downloaded(stream, quant::per_token_cast(stream, quant::QuantizedView(x), options),
                          options.scale_layout);
    }
    check_alone(the_case);
    const DeviceTensor x(stream, *the_case.input("x"));
    return downloaded(stream, quant::per_token_cast(stream, static_cast<const TensorView&>(x), options),
                      options.scale_layout);
}

std::vector<Result> run_e5m6_cast(const Stream& stream, const Case& the_case) {
    check_hidden(the_case, hidden_of(the_case));
    const quant::CastOptions options = e5m6_options(the_case.args, hidden_of(the_case));
    const DeviceTensor x(stream, *the_case.input("x"));
    return downloaded(stream, quant::per_token_cast(stream, static_cast<const TensorView&>(x), options),
                      options.scale_layout);
}

std::vector<Result> run_sf_only(const Stream& stream, const Case& the_case) {
    check_hidden(the_case, hidden_of(the_case));
    const quant::CastOptions options = token_options(the_case.args);
    const DeviceTensor x(stream, *the_case.input("x"));
    std::vector<Result> results;
    results.push_back(
        download_scales(stream, "sf", quant::per_token_cast_with_sf_only(stream, x, options), options.scale_layout));
    return results;
}

std::vector<Result> run_precomputed(const Stream& stream, const Case& the_case) {
    check_hidden(the_case, hidden_of(the_case));
    const quant::CastOptions options = token_options(the_case.args);
    if (options.scale_layout != quant::ScaleLayout::row_major)
        throw UsageError(fmt::format("{}: given scales are row-major; use sf=rowf", the_case.file));
    const DeviceTensor x(stream, *the_case.input("x")), sf(stream, *the_case.input("sf"));
    std::vector<Result> results;
    results.push_back(download_codes(
        stream, "out",
        quant::per_token_cast_with_precomputed_sf(stream, x, sf, options.num_per_channels, options.format)));
    return results;
}

std::vector<Result> run_block_cast(const Stream& stream, const Case& the_case) {
    check_hidden(the_case, hidden_of(the_case));
    const quant::BlockCastOptions options = block_options(the_case.args);
    const DeviceTensor x(stream, *the_case.input("x"));
    return downloaded(stream, quant::per_block_cast(stream, x, options), options.scale_layout);
}

std::vector<Result> run_block_sf_only(const Stream& stream, const Case& the_case) {
    check_hidden(the_case, hidden_of(the_case));
    const quant::BlockCastOptions options = block_options(the_case.args);
    const DeviceTensor x(stream, *the_case.input("x"));
    std::vector<Result> results;
    results.push_back(
        download_scales(stream, "sf", quant::per_block_cast_with_sf_only(stream, x, options), options.scale_layout));
    return results;
}

std::vector<Result> run_block_precomputed(const Stream& stream, const Case& the_case) {
    check_hidden(the_case, hidden_of(the_case));
    const quant::BlockCastOptions options = block_options(the_case.args);
    if (options.scale_layout != quant::ScaleLayout::row_major)
        throw UsageError(fmt::format("{}: given scales are row-major; use sf=rowf", the_case.file));
    const DeviceTensor x(stream, *the_case.input("x")), sf(stream, *the_case.input("sf"));
    std::vector<Result> results;
    results.push_back(download_codes(stream, "out",
                                     quant::per_block_cast_with_precomputed_sf(stream, x, sf, options.block_rows,
                                                                               options.block_columns, options.format)));
    return results;
}

Rule token_rule(const Case& the_case, const std::string& output) {
    if (output != "sf") return {};
    return scale_rule(output_scales(the_case.args), hidden_of(the_case), the_case.args.number("num_per_channels", 128));
}

Rule e5m6_rule(const Case& the_case, const std::string& output) {
    if (output != "sf") return {};
    return scale_rule(output_scales(the_case.args), 1, 1);
}

Rule block_rule(const Case& the_case, const std::string& output) {
    if (output != "sf") return {};
    return scale_rule(output_scales(the_case.args), hidden_of(the_case), block_options(the_case.args).block_columns);
}

Program token_program(const Arguments& args, const Target&) {
    const std::int64_t hidden = args.number("hidden", default_hidden);
    const bool aligned = args.flag("aligned", true);
    if (!from_pair(args))
        return quant::per_token_cast_program(input_element(args, plain), hidden, token_options(args), aligned);
    const BlockSize block = block_option(args, "x_block_size", {1, 128});
    return quant::per_token_cast_program(format_option(args, "in_fmt", codes),
                                         {input_scales(args).layout, block.rows, block.columns}, hidden,
                                         token_options(args), aligned);
}

Program e5m6_program(const Arguments& args, const Target&) {
    const std::int64_t hidden = args.number("hidden", default_hidden);
    return quant::per_token_cast_program(input_element(args, plain), hidden, e5m6_options(args, hidden),
                                         args.flag("aligned", true));
}

Program sf_only_program(const Arguments& args, const Target&) {
    return quant::per_token_cast_with_sf_only_program(input_element(args, plain), args.number("hidden", default_hidden),
                                                      token_options(args), args.flag("aligned", true));
}

Program precomputed_program(const Arguments& args, const Target&) {
    const quant::CastOptions options = token_options(args);
    return quant::per_token_cast_with_precomputed_sf_program(
        input_element(args, plain), args.number("hidden", default_hidden), options.num_per_channels, options.format,
        args.flag("aligned", true));
}

Program block_program(const Arguments& args, const Target&) {
    return quant::per_block_cast_program(input_element(args, plain), args.number("hidden", default_hidden),
                                         block_options(args), args.flag("aligned", true));
}

Program block_sf_only_program(const Arguments& args, const Target&) {
    return quant::per_block_cast_with_sf_only_program(input_element(args, plain), args.number("hidden", default_hidden),
                                                      block_options(args), args.flag("aligned", true));
}

Program block_precomputed_program(const Arguments& args, const Target&) {
    const quant::BlockCastOptions options = block_options(args);
    return quant::per_block_cast_with_precomputed_sf_program(
        input_element(args, plain), args.number("hidden", default_hidden), options.block_rows, options.block_columns,
        options.format, args.flag("aligned", true));
}

void add_block_variants(std::vector<KernelEntry>& table) {
    table.push_back({"per_block_cast_with_sf_only",
                     "the scales of per_block_cast alone",
                     {"fmt", "block_size", "sf", "round_sf", "hidden"},
                     {},
                     {"x"},
                     {"sf"},
                     nothing_missing,
                     run_block_sf_only,
                     block_rule,
                     block_sf_only_program});
    table.push_back({"per_block_cast_with_precomputed_sf",
                     "the codes of per_block_cast for given scales",
                     {"fmt", "block_size", "sf", "hidden"},
                     {},
                     {"x", "sf"},
                     {"out"},
                     nothing_missing,
                     run_block_precomputed,
                     every_bit,
                     block_precomputed_program});
}

void add_token_variants(std::vector<KernelEntry>& table) {
    table.push_back({"per_token_cast_to_e5m6",
                     "quantizes rows, one scale each: BF16 or FP32 to E5M6",
                     {"sf", "round_sf", "round_subnormals", "hidden"},
                     {},
                     {"x"},
                     {"out", "sf"},
                     nothing_missing,
                     run_e5m6_cast,
                     e5m6_rule,
                     e5m6_program});
    table.push_back({"per_token_cast_with_sf_only",
                     "the scales of per_token_cast alone",
                     {"fmt", "num_per_channels", "sf", "round_sf", "hidden"},
                     {},
                     {"x"},
                     {"sf"},
                     nothing_missing,
                     run_sf_only,
                     token_rule,
                     sf_only_program});
    table.push_back({"per_token_cast_with_precomputed_sf",
                     "the codes of per_token_cast for given scales",
                     {"fmt", "num_per_channels", "sf", "hidden"},
                     {},
                     {"x", "sf"},
                     {"out"},
                     nothing_missing,
                     run_precomputed,
                     every_bit,
                     precomputed_program});
}

}  // namespace

void add_quant_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"per_token_cast",
                     "quantizes rows in groups of channels: BF16, FP32 or a quantized pair to E4M3, E2M1, E5M6",
                     {"fmt", "num_per_channels", "sf", "round_sf", "hidden", "in_fmt", "in_sf", "x_block_size"},
                     {},
                     {"x"},
                     {"out", "sf"},
                     nothing_missing,
                     run_token_cast,
                     token_rule,
                     token_program,
                     {"x_sf"}});
    table.push_back({"per_block_cast",
                     "quantizes 2-D blocks: BF16 or FP32 to E4M3 or E2M1",
                     {"fmt", "block_size", "sf", "round_sf", "hidden"},
                     {},
                     {"x"},
                     {"out", "sf"},
                     nothing_missing,
                     run_block_cast,
                     block_rule,
                     block_program});
    add_token_variants(table);
    add_block_variants(table);
    add_lossless_kernels(table);
    add_cast_back_kernels(table);
}

}  // namespace tessera::tool

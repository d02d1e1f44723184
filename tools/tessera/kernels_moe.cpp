#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/moe.hpp"
#include "tools/tessera/device_tensor.hpp"
#include "tools/tessera/kernels.hpp"

namespace tessera::tool {

namespace {

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

Rule every_bit(const Case&, const std::string&) { return {}; }

constexpr std::int64_t default_hidden = 7168, default_topk = 6;

// ---- expand --------------------------------------------------------------------------------------------------------

std::vector<Result> run_expand(const Stream& stream, const Case& the_case) {
    const DeviceTensor x(stream, *the_case.input("x")), slots(stream, *the_case.input("token_topk_to_pos")),
        expert(stream, *the_case.input("pos_to_expert"));
    std::vector<Result> results;
    results.push_back(download(stream, "out", moe::expand_to_fused(stream, x, slots, expert)));
    return results;
}

/// "sf" of the golden files names layout and rounding; the rounding is the input's affair.
moe::ScaledExpandOptions expand_options(const Arguments& args) {
    const std::string kind = args.text("sf", "rowf");
    if (kind != "rowf" && kind != "rowp2" && kind != "colf" && kind != "colp2" && kind != "packed")
        throw UsageError(
            fmt::format("{}: sf is {}; use rowf, rowp2, colf, colp2 or packed", args.where(), json::shown(kind)));
    return {args.number("num_per_channels", 128), kind[0] != 'r'};
}

std::vector<Result> run_expand_with_sf(const Stream& stream, const Case& the_case) {
    const moe::ScaledExpandOptions options = expand_options(the_case.args);
    const DeviceTensor x(stream, *the_case.input("x")), x_sf(stream, *the_case.input("x_sf")),
        slots(stream, *the_case.input("token_topk_to_pos")), expert(stream, *the_case.input("pos_to_expert"));
    const moe::Expanded expanded = moe::expand_to_fused_with_sf(stream, x, x_sf, slots, expert, options);
    std::vector<Result> results;
    results.push_back(download(stream, "out", expanded.data));
    results.push_back(options.column_major_sf ? download_columns(stream, "out_sf", expanded.sf)
                                              : download(stream, "out_sf", expanded.sf));
    return results;
}

int row_alignment(const Arguments& args, std::int64_t row_bytes, int word) {
    if (!args.flag("aligned", true)) return word;
    return static_cast<int>((row_bytes | 16) & -(row_bytes | 16));
}

Program expand_program(const Arguments& args, moe::ExpandedScales scales, std::int64_t scale_words, Element in) {
    const int bytes = bits_of(in) / 8;
    const std::int64_t row_bytes = args.number("hidden", default_hidden) * bytes;
    const int align = row_alignment(args, row_bytes, bytes), word = std::min(align, 4);
    return moe::expand_to_fused_program(word, row_bytes / word, args.number("topk", default_topk), align, scales,
                                        scale_words);
}

Program plain_expand_program(const Arguments& args, const Target&) {
    return expand_program(args, moe::ExpandedScales::none, 0,
                          input_element(args, {Element::bf16, Element::f32, Element::e4m3}));
}

Program scaled_expand_program(const Arguments& args, const Target&) {
    const moe::ScaledExpandOptions options = expand_options(args);
    const std::int64_t groups =
        (args.number("hidden", default_hidden) + options.num_per_channels - 1) / options.num_per_channels;
    const bool packed = args.text("sf", "") == "packed";
    return expand_program(
        args, options.column_major_sf ? moe::ExpandedScales::column_major : moe::ExpandedScales::row_major_vectors,
        packed ? (groups + 3) / 4 : groups, input_element(args, {Element::e4m3, Element::bf16, Element::f32}));
}

// ---- reduce --------------------------------------------------------------------------------------------------------

std::vector<Result> run_reduce(const Stream& stream, const Case& the_case) {
    const DeviceTensor x(stream, *the_case.input("x")), slots(stream, *the_case.input("token_topk_to_pos"));
    std::optional<DeviceTensor> given[3];
    const char* const names[] = {"topk_weights", "x_sf", "sf"};
    for (std::size_t i = 0; i < 3; ++i)
        if (const CaseTensor* t = the_case.input(names[i])) given[i].emplace(stream, *t);
    moe::ReduceOptions options;
    if (given[0]) options.topk_weights = *given[0];
    if (given[1]) options.x_sf = *given[1];
    options.to_e4m3 = the_case.args.flag("fp8", false);
    if (given[2]) options.sf = *given[2];
    std::vector<Result> results;
    results.push_back(download(stream, "out", moe::reduce_fused(stream, x, slots, options)));
    return results;
}

Program reduce_program(const Arguments& args, const Target&) {
    const bool fp8 = args.flag("fp8", false);
    return moe::reduce_fused_program(input_element(args, {Element::bf16, Element::f32}),
                                     args.number("hidden", default_hidden), args.number("topk", default_topk),
                                     {args.flag("with_weights", true), args.flag("with_sf", false), fp8, fp8},
                                     args.flag("aligned", true));
}

}  // namespace

void add_moe_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"expand_to_fused",
                     "copies rows of tokens to their places in the expert-major buffer, zeroes its padding",
                     {"hidden", "topk"},
                     {},
                     {"x", "token_topk_to_pos", "pos_to_expert"},
                     {"out"},
                     nothing_missing,
                     run_expand,
                     every_bit,
                     plain_expand_program});
    table.push_back({"expand_to_fused_with_sf",
                     "the same for quantized rows and their scales",
                     {"hidden", "topk", "num_per_channels", "sf"},
                     {},
                     {"x", "x_sf", "token_topk_to_pos", "pos_to_expert"},
                     {"out", "out_sf"},
                     nothing_missing,
                     run_expand_with_sf,
                     every_bit,
                     scaled_expand_program});
    table.push_back({"reduce_fused",
                     "sums the rows of a token's slots, weighted: BF16 or FP32 to the same or to E4M3",
                     {"hidden", "topk", "fp8", "with_weights", "with_sf"},
                     {},
                     {"x", "token_topk_to_pos"},
                     {"out"},
                     nothing_missing,
                     run_reduce,
                     every_bit,
                     reduce_program,
                     {"topk_weights", "x_sf", "sf"}});
}

}  // namespace tessera::tool

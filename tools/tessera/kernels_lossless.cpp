#include "kernels/quant_lossless.hpp"
#include "tools/tessera/kernels.hpp"
#include "tools/tessera/quant_options.hpp"

// From fine blocks of E2M1 to coarser ones of E4M3.

namespace tessera::tool {

namespace {

constexpr std::int64_t default_hidden = 7168;

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

BlockSize input_block(const Arguments& args) { return block_option(args, "x_block_size", {1, 32}); }

quant::LosslessOptions options_of(const Arguments& args) {
    const BlockSize block = block_option(args, "out_block_size", {128, 128});
    return {block.rows, block.columns, output_scales(args).layout};
}

std::vector<Result> run_cast(const Stream& stream, const Case& the_case) {
    const QuantizedInput x(stream, the_case, Element::e2m1, input_block(the_case.args));
    check_hidden(the_case, x.columns());
    const quant::LosslessOptions options = options_of(the_case.args);
    const quant::Quantized pair = quant::per_block_cast_lossless(stream, x, options);
    std::vector<Result> results;
    results.push_back(download_codes(stream, "out", pair.data));
    results.push_back(download_scales(stream, "sf", pair.sf, options.scale_layout));
    return results;
}

Rule rule(const Case& the_case, const std::string& output) {
    if (output != "sf") return {};
    const std::int64_t columns = columns_of(the_case, *the_case.input("x"), Element::e2m1);
    return scale_rule(output_scales(the_case.args), columns, options_of(the_case.args).block_columns);
}

Program program(const Arguments& args, const Target&) {
    const BlockSize block = input_block(args);
    return quant::per_block_cast_lossless_program(args.number("hidden", default_hidden),
                                                  {input_scales(args).layout, block.rows, block.columns},
                                                  options_of(args), args.flag("aligned", true));
}

}  // namespace

void add_lossless_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"per_block_cast_lossless",
                     "joins fine blocks to coarser ones and keeps every value: E2M1 to E4M3",
                     {"x_block_size", "out_block_size", "sf", "in_sf", "hidden"},
                     {},
                     {"x", "x_sf"},
                     {"out", "sf"},
                     nothing_missing,
                     run_cast,
                     rule,
                     program});
}

}  // namespace tessera::tool

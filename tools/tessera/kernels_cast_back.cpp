#include "tools/tessera/kernels.hpp"
#include "tools/tessera/quant_options.hpp"

// The casts back to wide types. `fmt` is the format of the input here, `out` the type that comes out.

namespace tessera::tool {

namespace {

constexpr std::int64_t default_hidden = 7168;
const std::vector<Element> codes = {Element::e4m3, Element::e2m1};

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }
Rule every_bit(const Case&, const std::string&) { return {}; }
Element output_type(const Arguments& args) { return format_option(args, "out", {Element::bf16, Element::f32}); }

std::vector<Result> run_back(const Stream& stream, const Case& the_case, Element format, BlockSize block) {
    const QuantizedInput x(stream, the_case, format, block);
    check_hidden(the_case, x.columns());
    std::vector<Result> results;
    results.push_back(download(stream, "out", quant::cast_back(stream, x, output_type(the_case.args))));
    return results;
}

Program back_program(const Arguments& args, Element format, BlockSize block) {
    return quant::cast_back_program(format, args.number("hidden", default_hidden),
                                    {input_scales(args).layout, block.rows, block.columns}, output_type(args),
                                    args.flag("aligned", true));
}

std::vector<Result> run_blocks(const Stream& stream, const Case& the_case) {
    return run_back(stream, the_case, format_option(the_case.args, "fmt", codes),
                    block_option(the_case.args, "x_block_size", {128, 128}));
}
Program blocks_program(const Arguments& args, const Target&) {
    return back_program(args, format_option(args, "fmt", codes), block_option(args, "x_block_size", {128, 128}));
}

std::vector<Result> run_tokens(const Stream& stream, const Case& the_case) {
    return run_back(stream, the_case, format_option(the_case.args, "fmt", codes),
                    {1, the_case.args.number("num_per_channels", 128)});
}
Program tokens_program(const Arguments& args, const Target&) {
    return back_program(args, format_option(args, "fmt", codes), {1, args.number("num_per_channels", 128)});
}

/// One scale a row.
std::vector<Result> run_e5m6(const Stream& stream, const Case& the_case) {
    return run_back(stream, the_case, Element::e5m6, {1, columns_of(the_case, *the_case.input("x"), Element::e5m6)});
}
Program e5m6_program(const Arguments& args, const Target&) {
    return back_program(args, Element::e5m6, {1, args.number("hidden", default_hidden)});
}

}  // namespace

void add_cast_back_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"cast_back",
                     "dequantizes 2-D blocks: E4M3 or E2M1 to BF16 or FP32",
                     {"fmt", "x_block_size", "sf", "in_sf", "out", "hidden"},
                     {},
                     {"x", "x_sf"},
                     {"out"},
                     nothing_missing,
                     run_blocks,
                     every_bit,
                     blocks_program});
    table.push_back({"per_token_cast_back",
                     "dequantizes rows in groups of channels: E4M3 or E2M1 to BF16 or FP32",
                     {"fmt", "num_per_channels", "sf", "in_sf", "out", "hidden"},
                     {},
                     {"x", "x_sf"},
                     {"out"},
                     nothing_missing,
                     run_tokens,
                     every_bit,
                     tokens_program});
    table.push_back({"cast_back_e5m6",
                     "dequantizes rows with one scale each: E5M6 to BF16 or FP32",
                     {"sf", "in_sf", "out", "hidden"},
                     {},
                     {"x", "x_sf"},
                     {"out"},
                     nothing_missing,
                     run_e5m6,
                     every_bit,
                     e5m6_program});
}

}  // namespace tessera::tool

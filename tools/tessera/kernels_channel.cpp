#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/quant_channel.hpp"
#include "tools/tessera/kernels.hpp"
#include "tools/tessera/quant_options.hpp"

// Quantization down the tokens.

namespace tessera::tool {

namespace {

constexpr std::int64_t default_hidden = 7168;
const std::vector<Element> plain = {Element::bf16, Element::f32};

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }
Rule every_bit(const Case&, const std::string&) { return {}; }

quant::ChannelCastOptions options_of(const Arguments& args) {
    return {args.number("num_per_tokens", 128), args.flag("round_sf", false)};
}

std::vector<Result> downloaded(const Stream& stream, const quant::Quantized& pair) {
    std::vector<Result> results;
    results.push_back(download(stream, "out", pair.data));
    results.push_back(download(stream, "sf", pair.sf));
    return results;
}

std::vector<Result> run_cast(const Stream& stream, const Case& the_case) {
    const DeviceTensor x(stream, *the_case.input("x"));
    return downloaded(stream, quant::per_channel_cast(stream, x, options_of(the_case.args)));
}

std::vector<Result> run_transpose(const Stream& stream, const Case& the_case) {
    const DeviceTensor x(stream, *the_case.input("x"));
    return downloaded(stream, quant::per_channel_cast_and_transpose(stream, x, options_of(the_case.args)));
}

/// The file's rows past the end of pos_to_token are rows of token 0 (tests/golden/README.md): here they are asked for.
struct Rows {
    std::optional<CaseTensor> padded;
    std::int64_t wanted = 0;
};
Rows rows_of(const Case& the_case, std::int64_t block) {
    Rows rows;
    const CaseTensor* given = the_case.input("pos_to_token");
    if (!given) return rows;
    if (given->shape.size() != 1)
        throw UsageError(fmt::format("{}: pos_to_token has {} axes; give one", the_case.file, given->shape.size()));
    rows.padded = *given;
    rows.wanted = given->shape[0];
    rows.padded->shape[0] = (rows.wanted + block - 1) / block * block;
    rows.padded->values.resize(static_cast<std::size_t>(rows.padded->shape[0]) * given->value_bytes());
    return rows;
}

std::vector<Result> run_fused(const Stream& stream, const Case& the_case) {
    quant::FusedChannelCastOptions options{options_of(the_case.args)};
    const Rows rows = rows_of(the_case, options.num_per_tokens);
    std::optional<DeviceTensor> pos;
    if (rows.padded) pos.emplace(stream, *rows.padded);
    if (pos) options.pos_to_token = *pos;
    const bool pair = the_case.args.flag("cast_back", false);
    for (const char* name : {"x", "x.0", "x.1"})
        if ((the_case.input(name) == nullptr) != ((name[1] == 0) == pair))
            throw UsageError(fmt::format("{}: with cast_back={} the inputs are {}; correct the file", the_case.file,
                                         pair, pair ? "x.0 and x.1" : "x"));
    const DeviceTensor x(stream, *the_case.input(pair ? "x.0" : "x"));
    quant::Quantized result;
    if (pair) {
        const DeviceTensor sf(stream, *the_case.input("x.1"));
        result = quant::per_channel_cast_fused(stream, quant::QuantizedView{x, sf}, options);
    } else {
        result = quant::per_channel_cast_fused(stream, static_cast<const TensorView&>(x), options);
    }
    std::vector<Result> results;
    const TensorView data = result.data;
    results.push_back(download(stream, "out", rows.padded ? data.slice(0, 0, rows.wanted) : data));
    results.push_back(download(stream, "sf", result.sf));
    return results;
}

Program cast_program(const Arguments& args, const Target&) {
    return quant::per_channel_cast_program(input_element(args, plain), args.number("hidden", default_hidden),
                                           options_of(args), false, args.flag("aligned", true));
}

Program transpose_program(const Arguments& args, const Target&) {
    return quant::per_channel_cast_and_transpose_program(input_element(args, plain),
                                                         args.number("hidden", default_hidden), options_of(args),
                                                         args.flag("aligned", true));
}

Program fused_program(const Arguments& args, const Target&) {
    const std::int64_t hidden = args.number("hidden", default_hidden);
    const bool gather = args.flag("gather", true), aligned = args.flag("aligned", true);
    if (args.flag("cast_back", false))
        return quant::per_channel_cast_program(quant::QuantizedLayout{}, hidden, options_of(args), gather, aligned);
    return quant::per_channel_cast_program(input_element(args, plain), hidden, options_of(args), gather, aligned);
}

}  // namespace

void add_channel_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"per_channel_cast",
                     "quantizes channels in blocks of rows: BF16 or FP32 to E4M3",
                     {"num_per_tokens", "round_sf", "hidden"},
                     {},
                     {"x"},
                     {"out", "sf"},
                     nothing_missing,
                     run_cast,
                     every_bit,
                     cast_program});
    table.push_back({"per_channel_cast_and_transpose",
                     "the same with the codes transposed",
                     {"num_per_tokens", "round_sf", "hidden"},
                     {},
                     {"x"},
                     {"out", "sf"},
                     nothing_missing,
                     run_transpose,
                     every_bit,
                     transpose_program});
    table.push_back({"per_channel_cast_fused",
                     "the same with rows in any order, also from an E4M3 pair",
                     {"num_per_tokens", "round_sf", "hidden", "cast_back", "gather"},
                     {},
                     {},
                     {"out", "sf"},
                     nothing_missing,
                     run_fused,
                     every_bit,
                     fused_program,
                     {"x", "x.0", "x.1", "pos_to_token"}});
}

}  // namespace tessera::tool

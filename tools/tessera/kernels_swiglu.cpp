#include <cstring>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/swiglu.hpp"
#include "tools/tessera/kernels.hpp"
#include "tools/tessera/quant_options.hpp"

namespace tessera::tool {

namespace {

constexpr std::int64_t default_hidden = 2048;

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

std::optional<float> real_option(const Arguments& args, std::string_view key) {
    const auto value = args.real(key);
    return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

/// The name in the specification, or the golden files' short one.
std::optional<float> clamp_option(const Arguments& args) {
    return real_option(args, args.has("clamp") ? "clamp" : "swiglu_clamp_value");
}

swiglu::ForwardOptions forward_options(const Arguments& args) {
    const ScaleKind scales = output_scales(args);
    format_option(args, "fmt", {Element::e4m3});
    return {args.number("num_per_channels", 128), scales.layout, scales.rounded, clamp_option(args),
            real_option(args, "sf_clamp_min")};
}

swiglu::BackwardOptions backward_options(const Arguments& args) {
    return {args.number("num_per_channels", 128), args.flag("round_sf", false), clamp_option(args)};
}

/// Channels of one half of a row.
std::int64_t half_of(const Case& the_case) {
    const CaseTensor& x = *the_case.input("x");
    if (x.shape.empty()) throw UsageError(fmt::format("{}: x has no axes; give a matrix", the_case.file));
    return x.shape.back() / 2;
}

/// The input of that name; present exactly if the option says so, where it says anything.
const CaseTensor* optional_input(const Case& the_case, const char* name, const char* option) {
    const CaseTensor* tensor = the_case.input(name);
    if (the_case.args.has(option) && the_case.args.flag(option, false) != (tensor != nullptr))
        throw UsageError(fmt::format("{}: the option {} and the input {} contradict each other; correct one of them",
                                     the_case.file, option, name));
    return tensor;
}

std::vector<Result> run_forward(const Stream& stream, const Case& the_case) {
    check_hidden(the_case, half_of(the_case));
    const swiglu::ForwardOptions options = forward_options(the_case.args);
    std::vector<DeviceTensor> kept;
    const auto upload = [&](const CaseTensor* t) -> std::optional<TensorView> {
        if (!t) return std::nullopt;
        kept.emplace_back(stream, *t);
        return static_cast<const TensorView&>(kept.back());
    };
    swiglu::ForwardMaps maps;
    const TensorView x = *upload(the_case.input("x"));
    maps.pos_to_token_topk = upload(optional_input(the_case, "pos_to_token_topk", "with_weight"));
    maps.topk_weights = upload(optional_input(the_case, "topk_weights", "with_weight"));
    maps.pos_to_expert = upload(optional_input(the_case, "pos_to_expert", "with_pos_to_expert"));
    Tensor count;
    if (options.swiglu_clamp_value) {
        count = Tensor::zeros(stream, i64, {3});
        maps.clamped_count = count;
    }
    const quant::Quantized q = swiglu::forward_and_per_token_cast(stream, x, options, maps);
    std::vector<Result> results;
    results.push_back(download(stream, "out", q.data));
    results.push_back(download_scales(stream, "sf", q.sf, options.scale_layout));
    if (options.swiglu_clamp_value) results.push_back(download(stream, "clamped_count", count));
    return results;
}

std::vector<Result> run_backward(const Stream& stream, const Case& the_case) {
    check_hidden(the_case, half_of(the_case));
    std::vector<DeviceTensor> kept;
    const auto upload = [&](const char* name) -> TensorView {
        kept.emplace_back(stream, *the_case.input(name));
        return kept.back();
    };
    const swiglu::BackwardInputs inputs{upload("x"),
                                        upload("x_sf"),
                                        upload("grad_out"),
                                        upload("weight"),
                                        upload("pos_to_token_topk"),
                                        upload("token_topk_to_pos")};
    const auto g = swiglu::backward_and_per_token_cast(stream, inputs, backward_options(the_case.args));
    std::vector<Result> results;
    results.push_back(download(stream, "out", g.out));
    results.push_back(download(stream, "x_grad_fp8", g.x_grad_q));
    results.push_back(download(stream, "x_grad_sf", g.x_grad_sf));
    results.push_back(download(stream, "x_grad", g.x_grad));
    results.push_back(download(stream, "weight_grad", g.weight_grad));
    return results;
}

/// Rows that are skipped are unspecified.
std::vector<bool> used_rows(const Case& the_case) {
    std::vector<bool> used;
    const CaseTensor* experts = the_case.input("pos_to_expert");
    for (std::size_t at = 0; experts && at < experts->values.size(); at += sizeof(std::int32_t)) {
        std::int32_t expert = 0;
        std::memcpy(&expert, &experts->values[at], sizeof expert);
        used.push_back(expert >= 0);
    }
    return used;
}

Rule forward_rule(const Case& the_case, const std::string& output) {
    const swiglu::ForwardOptions options = forward_options(the_case.args);
    const std::int64_t hidden = half_of(the_case);
    Rule rule;
    if (output == "clamped_count") {  // the reference counts wrongly where one scale has such a row
        rule.multiple = options.num_per_channels == hidden && (hidden & (hidden - 1)) != 0;
        return rule;
    }
    if (output == "sf") rule = scale_rule(output_scales(the_case.args), hidden, options.num_per_channels);
    rule.rows = used_rows(the_case);
    if (output == "sf" && !options.round_sf) rule.host_ulps = 3;
    return rule;
}

Rule backward_rule(const Case& the_case, const std::string& output) {
    Rule rule;
    if (output == "x_grad_sf" && !backward_options(the_case.args).round_sf) rule.host_ulps = 1;
    if (output == "weight_grad") rule.absolute = rule.relative = 1e-4;
    return rule;
}

Program forward_program(const Arguments& args, const Target&) {
    const swiglu::ForwardShape shape{args.flag("with_weight", false), args.flag("with_pos_to_expert", false),
                                     clamp_option(args).has_value()};
    return swiglu::forward_and_per_token_cast_program(input_element(args, {Element::bf16, Element::f32}),
                                                      args.number("hidden", default_hidden), forward_options(args),
                                                      shape, args.flag("aligned", true));
}

Program backward_program(const Arguments& args, const Target&) {
    return swiglu::backward_and_per_token_cast_program(args.number("hidden", default_hidden), backward_options(args),
                                                       args.flag("aligned", true));
}

}  // namespace

void add_swiglu_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"swiglu_forward_and_per_token_cast",
                     "SwiGLU, times a routing weight, quantized to E4M3 in groups of channels",
                     {"fmt", "num_per_channels", "sf", "round_sf", "clamp", "swiglu_clamp_value", "sf_clamp_min",
                      "with_weight", "with_pos_to_expert", "hidden"},
                     {},
                     {"x"},
                     {"out", "sf", "clamped_count"},
                     nothing_missing,
                     run_forward,
                     forward_rule,
                     forward_program,
                     {"pos_to_token_topk", "topk_weights", "pos_to_expert"}});
    table.push_back({"swiglu_backward_and_per_token_cast",
                     "gradients of the weighted SwiGLU, in BF16 and in E4M3 with scales",
                     {"num_per_channels", "round_sf", "clamp", "swiglu_clamp_value", "hidden"},
                     {},
                     {"x", "x_sf", "grad_out", "weight", "pos_to_token_topk", "token_topk_to_pos"},
                     {"out", "x_grad_fp8", "x_grad_sf", "x_grad", "weight_grad"},
                     nothing_missing,
                     run_backward,
                     backward_rule,
                     backward_program});
}

}  // namespace tessera::tool

#include "kernels/mhc.hpp"
#include "tools/tessera/mhc_case.hpp"

// The hyper-connection kernels that read and write streams of channels. A case holds the forward pass and, with the
// gradient of its result, the backward one; what lay in the residual's gradient before is 0.

namespace tessera::tool {

namespace {

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

mhc::StreamsForm form_of(const Arguments& args) {
    const bool adds = args.flag("accumulate", false);
    return {args.number("mhc_mult", 4), args.number("hidden", 7168), args.flag("aligned", true),
            adds ? mhc::Residual::accumulate : mhc::Residual::overwrite};
}

template <Program (*Forward)(const mhc::StreamsForm&), Program (*Backward)(const mhc::StreamsForm&)>
Program program(const Arguments& args, const Target&) {
    return backward_pass(args) ? Backward(form_of(args)) : Forward(form_of(args));
}

// ---- expand --------------------------------------------------------------------------------------------------------

std::vector<Result> run_expand(const Stream& stream, const Case& the_case) {
    CaseInputs in(stream, the_case);
    std::vector<Result> results;
    results.push_back(
        download(stream, "out", mhc::expand_forward(stream, in("x"), the_case.args.number("mhc_mult", 4))));
    if (in.has("grad_out")) results.push_back(download(stream, "grad_x", mhc::expand_backward(stream, in("grad_out"))));
    return results;
}

Rule every_bit(const Case&, const std::string&) { return {}; }

// ---- pre_apply_mix -------------------------------------------------------------------------------------------------

std::vector<Result> run_apply(const Stream& stream, const Case& the_case) {
    CaseInputs in(stream, the_case);
    const TensorView residual = in("residual"), mix = in("mix");
    std::vector<Result> results;
    results.push_back(download(stream, "out", mhc::apply_mix_forward(stream, residual, mix)));
    if (!in.has("grad_out")) return results;
    const auto g = mhc::apply_mix_backward(stream, residual, mix, in("grad_out"));
    results.push_back(download(stream, "grad_residual", g.residual));
    results.push_back(download(stream, "grad_mix", g.mix));
    return results;
}

Rule apply_rule(const Case& the_case, const std::string& output) {
    const auto e = extents_with_hidden(the_case, "residual");
    const auto residual = numbers(the_case, "residual"), mix = numbers(the_case, "mix");
    if (output == "out") return limited(mhc_reference::apply(e, residual, mix));
    const auto g = mhc_reference::apply_gradients(e, residual, mix, numbers(the_case, "grad_out"));
    return limited(output == "grad_mix" ? g.mix : g.residual);
}

// ---- post ----------------------------------------------------------------------------------------------------------

std::vector<Result> run_post(const Stream& stream, const Case& the_case) {
    CaseInputs in(stream, the_case);
    const mhc::PostInputs inputs{in("x"), in("residual"), in("post_mix"), in("comb_mix")};
    std::vector<Result> results;
    results.push_back(download(stream, "out", mhc::post_forward(stream, inputs)));
    if (!in.has("grad_out")) return results;
    const auto g = mhc::post_backward(stream, inputs, in("grad_out"));
    results.push_back(download(stream, "grad_x", g.y));
    results.push_back(download(stream, "grad_residual", g.residual));
    results.push_back(download(stream, "grad_post_mix", g.post));
    results.push_back(download(stream, "grad_comb_mix", g.comb));
    return results;
}

Rule post_rule(const Case& the_case, const std::string& output) {
    const auto e = extents_with_hidden(the_case, "residual");
    const mhc_reference::Post in{numbers(the_case, "x"), numbers(the_case, "residual"), numbers(the_case, "post_mix"),
                                 numbers(the_case, "comb_mix")};
    if (output == "out") return limited(mhc_reference::post(e, in));
    const auto g = mhc_reference::post_gradients(e, in, numbers(the_case, "grad_out"));
    if (output == "grad_x") return limited(g.y);
    if (output == "grad_residual") return limited(g.residual);
    return limited(output == "grad_post_mix" ? g.post : g.comb);
}

}  // namespace

void add_mhc_kernels(std::vector<KernelEntry>& table) {
    add_mhc_mix_kernels(table);
    add_mhc_norm_kernels(table);
    table.push_back({"mhc_expand",
                     "copies each token into m streams; and the sum of their gradients",
                     {"mhc_mult", "hidden", "pass"},
                     {},
                     {"x"},
                     {"out", "grad_x"},
                     nothing_missing,
                     run_expand,
                     every_bit,
                     program<mhc::expand_forward_program, mhc::expand_backward_program>,
                     {"grad_out"}});
    table.push_back({"mhc_pre_apply_mix",
                     "the weighted sum of a token's streams; and its gradients",
                     {"mhc_mult", "hidden", "pass", "accumulate"},
                     {},
                     {"residual", "mix"},
                     {"out", "grad_residual", "grad_mix"},
                     nothing_missing,
                     run_apply,
                     apply_rule,
                     program<mhc::apply_mix_forward_program, mhc::apply_mix_backward_program>,
                     {"grad_out"}});
    table.push_back({"mhc_post",
                     "scatters a layer's output to the streams and mixes them; and its gradients",
                     {"mhc_mult", "hidden", "pass", "accumulate"},
                     {},
                     {"x", "residual", "post_mix", "comb_mix"},
                     {"out", "grad_x", "grad_residual", "grad_post_mix", "grad_comb_mix"},
                     nothing_missing,
                     run_post,
                     post_rule,
                     program<mhc::post_forward_program, mhc::post_backward_program>,
                     {"grad_out"}});
}

}  // namespace tessera::tool

#include "kernels/mhc_mixes.hpp"
#include "tools/tessera/mhc_case.hpp"

// The hyper-connection kernels that work on the mixes alone. A case holds the forward pass and, with gradients of its
// result, the backward one.

namespace tessera::tool {

namespace {

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

// ---- sinkhorn ------------------------------------------------------------------------------------------------------

mhc::SinkhornOptions sinkhorn_options(const Arguments& args) {
    return {args.number("repeat", 10), real_or(args, "eps", 1e-6)};
}

std::vector<Result> run_sinkhorn(const Stream& stream, const Case& the_case) {
    CaseInputs in(stream, the_case);
    const mhc::SinkhornOptions options = sinkhorn_options(the_case.args);
    const TensorView x = in("comb");
    std::vector<Result> results;
    results.push_back(download(stream, "out", mhc::sinkhorn_forward(stream, x, options)));
    if (in.has("grad_out"))
        results.push_back(download(stream, "grad_comb", mhc::sinkhorn_backward(stream, x, in("grad_out"), options)));
    return results;
}

Rule sinkhorn_rule(const Case& the_case, const std::string& output) {
    const mhc::SinkhornOptions o = sinkhorn_options(the_case.args);
    auto e = extents_with_hidden(the_case, "comb");
    e.m = e.h;
    const mhc_reference::Numbers x = numbers(the_case, "comb");
    const double eps = static_cast<double>(o.eps);
    if (output == "out") return limited(mhc_reference::sinkhorn(e, x, o.repeat, eps, o.repeat <= 20));
    return limited(mhc_reference::sinkhorn_gradient(e, x, numbers(the_case, "grad_out"), o.repeat, eps));
}

Program sinkhorn_program(const Arguments& args, const Target&) {
    const mhc::SinkhornOptions o = sinkhorn_options(args);
    const mhc::SinkhornForm form{args.number("mhc_mult", 4), o.eps >= 0x1p-24f, args.flag("aligned", true)};
    return backward_pass(args) ? mhc::sinkhorn_backward_program(form, o.repeat) : mhc::sinkhorn_forward_program(form);
}

}  // namespace

void add_mhc_mix_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"mhc_sinkhorn",
                     "normalises rows and columns of each token's matrix by turns; and its gradient",
                     {"repeat", "eps", "mhc_mult", "pass"},
                     {},
                     {"comb"},
                     {"out", "grad_comb"},
                     nothing_missing,
                     run_sinkhorn,
                     sinkhorn_rule,
                     sinkhorn_program,
                     {"grad_out"}});
}

}  // namespace tessera::tool

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

// ---- pre_split_mixes -----------------------------------------------------------------------------------------------

mhc::SplitOptions split_options(const Arguments& args) {
    return {real_or(args, "post_mult", 1.0), real_or(args, "pre_eps", 1e-6)};
}
std::int64_t streams_of(const Case& the_case) {
    const std::vector<std::int64_t>& shape = the_case.input("input_mixes")->shape;
    std::int64_t m = 1;
    while (!shape.empty() && m * (m + 2) < shape.back()) ++m;
    return m;
}
Shape shape_of(const std::vector<std::int64_t>& leading, std::initializer_list<std::int64_t> tail) {
    Shape shape;
    for (std::size_t i = 0; i + 1 < leading.size(); ++i) shape.push_back(leading[i]);
    for (const std::int64_t e : tail) shape.push_back(e);
    return shape;
}

std::vector<Result> run_split(const Stream& stream, const Case& the_case) {
    CaseInputs in(stream, the_case);
    const mhc::SplitOptions options = split_options(the_case.args);
    const mhc::SplitInputs inputs{in("input_mixes"), in("mhc_scale"), in("mhc_base")};
    const std::vector<std::int64_t>& shape = the_case.input("input_mixes")->shape;
    const std::int64_t m = streams_of(the_case);
    const Tensor pre = Tensor::empty(stream, f32, shape_of(shape, {m, 1})),
                 post = Tensor::empty(stream, f32, shape_of(shape, {m, 1})),
                 comb = Tensor::empty(stream, f32, shape_of(shape, {m, m}));
    mhc::split_mixes_forward(stream, inputs, {pre, post, comb}, options);
    std::vector<Result> results;
    results.push_back(download(stream, "pre", pre));
    results.push_back(download(stream, "post", post));
    results.push_back(download(stream, "comb", comb));
    if (!in.has("grad_pre") || !in.has("grad_post") || !in.has("grad_comb")) return results;
    const auto g =
        mhc::split_mixes_backward(stream, inputs, post, {in("grad_pre"), in("grad_post"), in("grad_comb")}, options);
    results.push_back(download(stream, "grad_input_mixes", g.logits));
    results.push_back(download(stream, "grad_mhc_scale", g.scale));
    results.push_back(download(stream, "grad_mhc_base", g.base));
    return results;
}

mhc_reference::Split split_of(const Case& the_case, const char* logits, double post_mult, double pre_eps) {
    return {numbers(the_case, logits), numbers(the_case, "mhc_scale"), numbers(the_case, "mhc_base"), post_mult,
            pre_eps};
}

Rule split_rule(const Case& the_case, const std::string& output) {
    const mhc::SplitOptions o = split_options(the_case.args);
    const std::int64_t m = streams_of(the_case);
    auto e = extents_without_hidden(the_case, "input_mixes", m * (m + 2));
    e.m = m;
    const auto in = split_of(the_case, "input_mixes", static_cast<double>(o.post_mult), static_cast<double>(o.pre_eps));
    const auto mixes = mhc_reference::split(e, in);
    if (output == "pre") return limited(mixes.pre);
    if (output == "post") return limited(mixes.post);
    if (output == "comb") return limited(mixes.comb);
    const mhc_reference::Numbers post(mixes.post.value.begin(), mixes.post.value.end());
    const auto g = mhc_reference::split_gradients(e, in, post, numbers(the_case, "grad_pre"),
                                                  numbers(the_case, "grad_post"), numbers(the_case, "grad_comb"));
    if (output == "grad_input_mixes") return limited(g.logits);
    return limited(output == "grad_mhc_scale" ? g.scale : g.base);
}

Program split_program(const Arguments& args, const Target&) {
    const mhc::MixForm form{args.number("mhc_mult", 4), args.flag("aligned", true)};
    return backward_pass(args) ? mhc::split_mixes_backward_program(form) : mhc::split_mixes_forward_program(form);
}

// ---- head_compute_mix ----------------------------------------------------------------------------------------------

std::vector<Result> run_head(const Stream& stream, const Case& the_case) {
    CaseInputs in(stream, the_case);
    const mhc::HeadInputs inputs{in("input_mix"), in("mhc_scale"), in("mhc_base")};
    std::vector<Result> results;
    results.push_back(
        download(stream, "out", mhc::head_compute_mix_forward(stream, inputs, real_or(the_case.args, "eps", 1e-6))));
    if (!in.has("grad_out")) return results;
    const auto g = mhc::head_compute_mix_backward(stream, inputs, in("grad_out"));
    results.push_back(download(stream, "grad_input_mix", g.logits));
    results.push_back(download(stream, "grad_mhc_scale", g.scale));
    results.push_back(download(stream, "grad_mhc_base", g.base));
    return results;
}

Rule head_rule(const Case& the_case, const std::string& output) {
    const auto in = split_of(the_case, "input_mix", 1.0, static_cast<double>(real_or(the_case.args, "eps", 1e-6)));
    const auto e = extents_without_hidden(the_case, "input_mix", static_cast<std::int64_t>(in.base.size()));
    if (output == "out") return limited(mhc_reference::head(e, in));
    const auto g = mhc_reference::head_gradients(e, in, numbers(the_case, "grad_out"));
    if (output == "grad_input_mix") return limited(g.logits);
    return limited(output == "grad_mhc_scale" ? g.scale : g.base);
}

Program head_program(const Arguments& args, const Target&) {
    const mhc::MixForm form{args.number("mhc_mult", 4), args.flag("aligned", true)};
    return backward_pass(args) ? mhc::head_compute_mix_backward_program(form)
                               : mhc::head_compute_mix_forward_program(form);
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
    table.push_back({"mhc_pre_split_mixes",
                     "makes the mixes pre, post and comb of their logits; and the gradients",
                     {"post_mult", "pre_eps", "mhc_mult", "pass"},
                     {},
                     {"input_mixes", "mhc_scale", "mhc_base"},
                     {"pre", "post", "comb", "grad_input_mixes", "grad_mhc_scale", "grad_mhc_base"},
                     nothing_missing,
                     run_split,
                     split_rule,
                     split_program,
                     {"grad_pre", "grad_post", "grad_comb"}});
    table.push_back({"mhc_head_compute_mix",
                     "makes the mix of a head of its logits; and the gradients",
                     {"eps", "mhc_mult", "pass"},
                     {},
                     {"input_mix", "mhc_scale", "mhc_base"},
                     {"out", "grad_input_mix", "grad_mhc_scale", "grad_mhc_base"},
                     nothing_missing,
                     run_head,
                     head_rule,
                     head_program,
                     {"grad_out"}});
}

}  // namespace tessera::tool

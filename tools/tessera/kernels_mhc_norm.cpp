#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/mhc_norm.hpp"
#include "tools/tessera/mhc_case.hpp"

// The logits of hyper-connections: norm_fn, with the norm's weight merged, and pre_big_fuse. Each is several kernels;
// the option `part` says which of them is meant.

namespace tessera::tool {

namespace {

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

std::int64_t streams_of(const Arguments& args) { return args.number("mhc_mult", 4); }
std::int64_t inner_of(const Arguments& args) { return streams_of(args) * args.number("hidden", 7168); }
std::int64_t columns_of(const Arguments& args) { return streams_of(args) * (streams_of(args) + 2); }

/// S, as a program is made for it.
std::int64_t splits_of(const Arguments& args) { return args.number("n_splits", 1); }

// ---- pre_norm_fn ---------------------------------------------------------------------------------------------------

mhc::NormFnOptions norm_options(const Arguments& args) {
    return {real_or(args, "eps", 1e-6), args.number("n_splits", 0)};
}

std::vector<Result> run_norm(const Stream& stream, const Case& the_case) {
    CaseInputs in(stream, the_case);
    const mhc::NormFnOptions options = norm_options(the_case.args);
    const TensorView residual = in("residual");
    const auto forward = mhc::norm_fn_forward(stream, {residual, in("fn")}, options);
    std::vector<Result> results;
    results.push_back(download(stream, "out", forward.logits));
    if (!in.has("grad_out")) return results;
    const mhc::NormFnSaved<TensorView> saved{forward.saved.fn, forward.saved.products, forward.saved.square_sum};
    const auto g = mhc::norm_fn_backward(stream, residual, saved, in("grad_out"), options);
    results.push_back(download(stream, "grad_residual", g.residual));
    results.push_back(download(stream, "grad_fn", g.fn));
    return results;
}

Rule norm_rule(const Case& the_case, const std::string& output) {
    const auto e = extents_with_hidden(the_case, "residual");
    const mhc_reference::Norm in{numbers(the_case, "residual"), numbers(the_case, "fn"),
                                 static_cast<double>(norm_options(the_case.args).eps)};
    if (output == "out") return limited(mhc_reference::norm_fn(e, in).logits);
    const auto g = mhc_reference::norm_fn_gradients(e, in, numbers(the_case, "grad_out"));
    return limited(output == "grad_fn" ? g.fn : g.residual);
}

Program norm_program(const Arguments& args, const Target&) {
    const bool backward = backward_pass(args);
    const std::string part =
        part_of(args, backward ? std::vector<std::string>{"product", "reduce", "sum"}
                               : std::vector<std::string>{"product", "product_halves", "reduce", "round", "halve"});
    const mhc::NormForm form{columns_of(args), inner_of(args), true, args.flag("accumulate", false)};
    const mhc::LogitsForm logits{form.columns, mhc::reduce_at_once(splits_of(args)), args.flag("aligned", true)};
    if (part == "round") return mhc::round_weights_program();
    if (part == "halve") return mhc::halve_weights_program(true);
    if (part == "product_halves") return mhc::norm_product_halves_program(form);
    if (part == "sum") return mhc::sum_weight_parts_program(form.accumulate);
    if (part == "reduce")
        return backward ? mhc::norm_backward_reduce_program(logits) : mhc::norm_reduce_program(logits);
    return backward ? mhc::norm_product_backward_program(form) : mhc::norm_product_program(form);
}

// ---- merge_norm_weight ---------------------------------------------------------------------------------------------

std::vector<Result> run_merge(const Stream& stream, const Case& the_case) {
    CaseInputs in(stream, the_case);
    const TensorView fn = in("fn"), weight = in("norm_weight");
    std::vector<Result> results;
    results.push_back(download(stream, "out", mhc::merge_norm_weight_forward(stream, fn, weight)));
    if (!in.has("grad_out")) return results;
    const auto g = mhc::merge_norm_weight_backward(stream, fn, weight, in("grad_out"));
    results.push_back(download(stream, "grad_fn", g.fn));
    results.push_back(download(stream, "grad_norm_weight", g.weight));
    return results;
}

Rule merge_rule(const Case& the_case, const std::string& output) {
    const auto fn = numbers(the_case, "fn"), weight = numbers(the_case, "norm_weight");
    if (output == "out") return {};
    const auto g = mhc_reference::merge_gradients(fn, weight, numbers(the_case, "grad_out"));
    return limited(output == "grad_fn" ? g.fn : g.weight);
}

Program merge_program(const Arguments& args, const Target&) {
    const bool aligned = args.flag("aligned", true), adds = args.flag("accumulate", false);
    return backward_pass(args) ? mhc::merge_norm_weight_backward_program(columns_of(args), aligned, {adds, adds})
                               : mhc::merge_norm_weight_program(columns_of(args), aligned);
}

// ---- pre_big_fuse --------------------------------------------------------------------------------------------------

mhc::PreOptions pre_options(const Arguments& args) {
    const float eps = real_or(args, "eps", 1e-6);
    return {eps,
            real_or(args, "pre_eps", static_cast<double>(eps)),
            real_or(args, "sinkhorn_eps", static_cast<double>(eps)),
            real_or(args, "post_mult", 1.0),
            args.number("sinkhorn_repeat", 10),
            args.number("n_splits", 0)};
}

std::vector<Result> run_pre(const Stream& stream, const Case& the_case) {
    CaseInputs in(stream, the_case);
    const mhc::PreInputs inputs{in("residual"), in("fn"), in("mhc_scale"), in("mhc_base")};
    const std::vector<std::int64_t>& shape = the_case.input("residual")->shape;
    const auto extents = [&](std::initializer_list<std::int64_t> tail) {
        Shape s;
        for (std::size_t i = 0; i + 2 < shape.size(); ++i) s.push_back(shape[i]);
        for (const std::int64_t e : tail) s.push_back(e);
        return s;
    };
    const auto e = extents_with_hidden(the_case, "residual");
    const Tensor post = Tensor::empty(stream, f32, extents({e.m, 1})),
                 comb = Tensor::empty(stream, f32, extents({e.m, e.m})),
                 u = Tensor::empty(stream, bf16, extents({e.h}));
    mhc::pre_big_fuse(stream, inputs, mhc::Pre<TensorView>{post, comb, u}, pre_options(the_case.args));
    std::vector<Result> results;
    results.push_back(download(stream, "post_mix", post));
    results.push_back(download(stream, "comb_mix", comb));
    results.push_back(download(stream, "layer_input", u));
    return results;
}

Rule pre_rule(const Case& the_case, const std::string& output) {
    const auto e = extents_with_hidden(the_case, "residual");
    const mhc::PreOptions o = pre_options(the_case.args);
    const mhc_reference::Pre in{
        {numbers(the_case, "residual"), numbers(the_case, "fn"), static_cast<double>(o.norm_eps)},
        numbers(the_case, "mhc_scale"),
        numbers(the_case, "mhc_base"),
        static_cast<double>(o.post_mult),
        static_cast<double>(o.pre_eps),
        static_cast<double>(o.sinkhorn_eps),
        o.repeat};
    const auto exact = mhc_reference::pre_big_fuse(e, in, o.repeat <= 20);
    if (output == "post_mix") return limited(exact.post);
    return limited(output == "comb_mix" ? exact.comb : exact.u);
}

Program pre_program(const Arguments& args, const Target&) {
    const std::int64_t m = streams_of(args);
    if (part_of(args, {"mix", "product"}) == "product")
        return mhc::norm_product_program({columns_of(args), inner_of(args), false, false});
    mhc::PreMixForm form{m, args.number("hidden", 7168), mhc::pre_mix_at_once(m, splits_of(args))};
    form.threads = static_cast<int>(args.number("threads", form.threads));
    form.bounded = pre_options(args).sinkhorn_eps >= 0x1p-24f;
    form.aligned = args.flag("aligned", true);
    return mhc::pre_mix_program(form);
}

}  // namespace

void add_mhc_norm_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"mhc_pre_norm_fn",
                     "makes the logits of the mixes: the normalised residual times fn; and the gradients",
                     {"eps", "n_splits", "hidden", "mhc_mult", "pass", "part", "accumulate"},
                     {},
                     {"residual", "fn"},
                     {"out", "grad_residual", "grad_fn"},
                     nothing_missing,
                     run_norm,
                     norm_rule,
                     norm_program,
                     {"grad_out"}});
    table.push_back({"mhc_merge_norm_weight",
                     "multiplies fn with the norm's weight; and the gradients",
                     {"mhc_mult", "pass", "accumulate"},
                     {},
                     {"fn", "norm_weight"},
                     {"out", "grad_fn", "grad_norm_weight"},
                     nothing_missing,
                     run_merge,
                     merge_rule,
                     merge_program,
                     {"grad_out"}});
    table.push_back({"mhc_pre_big_fuse",
                     "all that a layer's input takes, for inference: logits, mixes and the mixed streams",
                     {"eps", "pre_eps", "sinkhorn_eps", "post_mult", "sinkhorn_repeat", "n_splits", "hidden",
                      "mhc_mult", "part", "threads"},
                     {},
                     {"residual", "fn", "mhc_scale", "mhc_base"},
                     {"post_mix", "comb_mix", "layer_input"},
                     nothing_missing,
                     run_pre,
                     pre_rule,
                     pre_program});
}

}  // namespace tessera::tool

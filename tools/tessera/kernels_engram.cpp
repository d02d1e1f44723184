#include <cstring>

#include "kernels/engram.hpp"
#include "tools/tessera/device_tensor.hpp"
#include "tools/tessera/engram_rules.hpp"
#include "tools/tessera/kernels.hpp"

namespace tessera::tool {

namespace {

constexpr std::int64_t default_hidden = 7168;

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

Rule every_bit(const Case&, const std::string&) { return {}; }

std::vector<Result> run_fused_weight(const Stream& stream, const Case& the_case) {
    const DeviceTensor hidden(stream, *the_case.input("weight_hidden"));
    const DeviceTensor embed(stream, *the_case.input("weight_embed"));
    std::vector<Result> results;
    results.push_back(download(stream, "out", engram::fused_weight(stream, hidden, embed)));
    return results;
}

Program fused_weight_program(const Arguments& args, const Target&) {
    return engram::fused_weight_program(args.flag("aligned", true));
}

std::vector<Result> run_hash(const Stream& stream, const Case& the_case) {
    const DeviceTensor ids(stream, *the_case.input("ngram_token_ids"));
    const DeviceTensor multipliers(stream, *the_case.input("multipliers"));
    const DeviceTensor sizes(stream, *the_case.input("vocab_sizes"));
    const DeviceTensor offsets(stream, *the_case.input("offsets"));
    std::vector<Result> results;
    results.push_back(download(stream, "out", engram::hash(stream, {ids, multipliers, sizes, offsets})));
    return results;
}

Program hash_program(const Arguments& args, const Target&) {
    return engram::hash_program(args.number("ngram", 3), args.number("tables", 8));
}

std::vector<Result> run_forward(const Stream& stream, const Case& the_case) {
    const DeviceTensor x(stream, *the_case.input("hidden_states")), k(stream, *the_case.input("k"));
    const DeviceTensor v(stream, *the_case.input("v")), w(stream, *the_case.input("weight_fused"));
    engram::GateOptions options;
    options.eps = engram_eps(the_case.args);
    options.clamp_value = engram_clamp(the_case.args);
    const engram::GateOutputs out = engram::gate_forward(stream, {x, k, v, w}, options);
    std::vector<Result> results;
    results.push_back(download(stream, "out", out.output));
    results.push_back(download(stream, "dot", out.dot));
    results.push_back(download(stream, "gate_score", out.gate_score));
    results.push_back(download(stream, "rstd_x", out.rstd_x));
    results.push_back(download(stream, "rstd_k", out.rstd_k));
    return results;
}

Program forward_program(const Arguments& args, const Target&) {
    return engram::gate_forward_program(args.number("heads", 4), args.number("hidden", default_hidden),
                                        args.flag("save", true), args.flag("aligned", true));
}

/// The partial gradients are summed here: how many there are is the kernel's own choice.
Result summed(const Stream& stream, const TensorView& partial) {
    Result sum = download(stream, "grad_w_sum", partial);
    const std::int64_t rows = partial.extents[0], count = partial.extents[1] * partial.extents[2];
    std::vector<double> total(static_cast<std::size_t>(count));
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    std::vector<float> row(total.size());
    for (std::int64_t p = 0; p < rows; ++p) {
        std::memcpy(row.data(), &sum.tensor.values[static_cast<std::size_t>(p) * bytes], bytes);
        for (std::size_t i = 0; i < row.size(); ++i) total[i] += row[i];
    }
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(total[i]);
    sum.tensor.shape.erase(sum.tensor.shape.begin());
    sum.tensor.strides.erase(sum.tensor.strides.begin());
    sum.tensor.values.resize(bytes);
    std::memcpy(sum.tensor.values.data(), row.data(), bytes);
    return sum;
}

std::vector<Result> run_backward(const Stream& stream, const Case& the_case) {
    const auto upload = [&](const char* input) { return DeviceTensor(stream, *the_case.input(input)); };
    const DeviceTensor go = upload("grad_out"), x = upload("hidden_states"), k = upload("k"), v = upload("v");
    const DeviceTensor w = upload("weight_fused"), dot = upload("dot"), gate = upload("gate_score");
    const DeviceTensor rx = upload("rstd_x"), rk = upload("rstd_k");
    engram::BackwardOptions options;
    options.clamp_value = engram_clamp(the_case.args);
    options.blocks = the_case.args.number("blocks", 0);
    const engram::BackwardOutputs out = engram::gate_backward(stream, {go, {x, k, v, w}, dot, gate, rx, rk}, options);
    std::vector<Result> results;
    results.push_back(download(stream, "grad_hidden_states", out.grad_hidden_states));
    results.push_back(download(stream, "grad_k", out.grad_k));
    results.push_back(download(stream, "grad_v", out.grad_v));
    results.push_back(summed(stream, out.grad_w_partial));
    return results;
}

Program backward_program(const Arguments& args, const Target&) {
    return engram::gate_backward_program(args.number("heads", 4), args.number("hidden", default_hidden),
                                         args.flag("aligned", true));
}

std::vector<Result> run_grad_w_reduce(const Stream& stream, const Case& the_case) {
    const DeviceTensor partial(stream, *the_case.input("grad_w_partial"));
    const DeviceTensor hidden(stream, *the_case.input("weight_hidden"));
    const DeviceTensor embed(stream, *the_case.input("weight_embed"));
    const DeviceTensor grad_hidden(stream, *the_case.input("grad_weight_hidden"));
    const DeviceTensor grad_embed(stream, *the_case.input("grad_weight_embed"));
    engram::grad_w_reduce(stream, partial, hidden, embed, {grad_hidden, grad_embed});
    std::vector<Result> results;
    results.push_back(download(stream, "grad_weight_hidden", grad_hidden));
    results.push_back(download(stream, "grad_weight_embed", grad_embed));
    return results;
}

Program grad_w_reduce_program(const Arguments& args, const Target& target) {
    return engram::grad_w_reduce_program(args.number("rows", target.multiprocessors), args.flag("aligned", true));
}

}  // namespace

void add_engram_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"engram_fused_weight",
                     "product of the two norm weights of the Engram gate",
                     {},
                     {},
                     {"weight_hidden", "weight_embed"},
                     {"out"},
                     nothing_missing,
                     run_fused_weight,
                     every_bit,
                     fused_weight_program});
    table.push_back({"engram_hash",
                     "rows of the embedding tables, from hashes of n-grams",
                     {"ngram", "tables"},
                     {},
                     {"ngram_token_ids", "multipliers", "vocab_sizes", "offsets"},
                     {"out"},
                     nothing_missing,
                     run_hash,
                     every_bit,
                     hash_program});
    table.push_back({"engram_gate_fwd",
                     "adds what was looked up to the residual streams, through a gate",
                     {"eps", "clamp_value", "heads", "hidden", "save"},
                     {},
                     {"hidden_states", "k", "v", "weight_fused"},
                     {"out", "dot", "gate_score", "rstd_x", "rstd_k"},
                     nothing_missing,
                     run_forward,
                     engram_forward_rule,
                     forward_program});
    table.push_back({"engram_gate_bwd",
                     "gradients of the gate, the weight's as partial sums",
                     {"clamp_value", "blocks", "heads", "hidden"},
                     {},
                     {"grad_out", "hidden_states", "k", "v", "weight_fused", "dot", "gate_score", "rstd_x", "rstd_k"},
                     {"grad_hidden_states", "grad_k", "grad_v", "grad_w_sum"},
                     nothing_missing,
                     run_backward,
                     engram_backward_rule,
                     backward_program});
    table.push_back({"engram_grad_w_reduce",
                     "gradients of the two norm weights from partial sums, added in place",
                     {"rows"},
                     {},
                     {"grad_w_partial", "weight_hidden", "weight_embed", "grad_weight_hidden", "grad_weight_embed"},
                     {"grad_weight_hidden", "grad_weight_embed"},
                     nothing_missing,
                     run_grad_w_reduce,
                     engram_reduce_rule,
                     grad_w_reduce_program});
}

}  // namespace tessera::tool

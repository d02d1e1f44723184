#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/moe_gate.hpp"
#include "tools/tessera/device_tensor.hpp"
#include "tools/tessera/kernels.hpp"

namespace tessera::tool {

namespace {

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

Rule every_bit(const Case&, const std::string&) { return {}; }

int small(const Arguments& args, const char* key, std::int64_t otherwise) {
    return static_cast<int>(args.number(key, otherwise));
}

// ---- topk_gate -----------------------------------------------------------------------------------------------------

std::vector<Result> run_topk_gate(const Stream& stream, const Case& the_case) {
    const DeviceTensor scores(stream, *the_case.input("scores"));
    std::vector<Result> results;
    results.push_back(
        download(stream, "topk_idx", moe::topk_gate(stream, scores, small(the_case.args, "num_topk", 8))));
    return results;
}

Program topk_gate_program(const Arguments& args, const Target&) {
    return moe::topk_gate_program(args.number("num_experts", 256), small(args, "num_topk", 8));
}

// ---- topk_sum_and_topk_group_idx -----------------------------------------------------------------------------------

moe::GroupOptions group_options(const Arguments& args) {
    return {small(args, "num_group_sum_topk", 2), small(args, "num_topk_groups", 4)};
}

std::vector<Result> run_groups(const Stream& stream, const Case& the_case) {
    const DeviceTensor scores(stream, *the_case.input("scores"));
    std::vector<Result> results;
    results.push_back(
        download(stream, "group_idx", moe::topk_sum_and_topk_group_idx(stream, scores, group_options(the_case.args))));
    return results;
}

Program groups_program(const Arguments& args, const Target&) {
    const std::int64_t groups = args.number("num_groups", 8);
    if (groups < 1) throw UsageError(fmt::format("{}: the option num_groups is {}; at least 1", args.where(), groups));
    return moe::topk_sum_and_topk_group_idx_program(groups, args.number("num_experts", 256) / groups,
                                                    group_options(args));
}

// ---- top2_sum_gate -------------------------------------------------------------------------------------------------

std::vector<Result> run_gate(const Stream& stream, const Case& the_case) {
    const Arguments& args = the_case.args;
    const DeviceTensor logits(stream, *the_case.input("logits")), bias(stream, *the_case.input("bias"));
    const char* const names[] = {"mask", "fix_routing_mask", "to_physical_map", "logical_count", "unmapped_topk_idx"};
    std::optional<DeviceTensor> given[5];
    std::optional<TensorView> views[5];
    for (std::size_t i = 0; i < 5; ++i)
        if (const CaseTensor* t = the_case.input(names[i])) given[i].emplace(stream, *t), views[i] = *given[i];
    moe::GateOptions o;
    o.num_topk = small(args, "num_topk", 8);
    o.num_groups = small(args, "num_groups", 0), o.num_topk_groups = small(args, "num_topk_groups", 0);
    o.use_shared_as_routed = args.flag("use_shared_as_routed", false);
    o.num_shared_experts = small(args, "num_shared_experts", 0);
    o.routed_scaling_factor = static_cast<float>(args.real("routed_scaling_factor").value_or(1.0));
    o.scoring = moe::scoring_of(args.text("scoring", "sigmoid"));
    o.ep_rank = args.number("ep_rank", 0), o.num_ep_ranks = args.number("num_ep_ranks", 1);
    o.tp_rank = args.number("tp_rank", 0), o.num_tp_ranks = args.number("num_tp_ranks", 1);
    o.mask = views[0], o.fix_routing_mask = views[1];
    o.to_physical_map = views[2], o.logical_count = views[3], o.unmapped_topk_idx = views[4];
    const moe::Gated gated = moe::top2_sum_gate(stream, logits, bias, o);
    std::vector<Result> results;
    results.push_back(download(stream, "topk_idx", gated.topk_idx));
    results.push_back(download(stream, "topk_weights", gated.topk_weights));
    if (views[4]) results.push_back(download(stream, "unmapped_topk_idx", *views[4]));
    return results;
}

Rule gate_rule(const Case&, const std::string& output) {
    Rule rule;
    if (output == "topk_weights") rule.relative = 1e-6;
    return rule;
}

Program gate_program(const Arguments& args, const Target&) {
    moe::GateForm form{args.number("num_experts", 256)};
    const std::int64_t groups = args.number("num_groups", 0), chosen = args.number("num_topk_groups", 0);
    if (groups != chosen) form.groups = groups, form.chosen_groups = chosen;
    form.topk = small(args, "num_topk", 8);
    form.scoring = moe::scoring_of(args.text("scoring", "sigmoid"));
    if (args.flag("use_shared_as_routed", false))
        form.shared = args.number("num_shared_experts", 1), form.replicas = 33;
    form.per_rank = (form.experts + form.replicas) / args.number("num_ep_ranks", 1);
    form.num_tp_ranks = args.number("num_tp_ranks", 1);
    form.fixed = args.flag("fix_routing", false), form.unmapped = form.mask = true;
    return moe::top2_sum_gate_program(form);
}

}  // namespace

void add_gate_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"topk_gate",
                     "indices of each row's largest scores: value descending, index ascending",
                     {"num_topk", "num_experts"},
                     {},
                     {"scores"},
                     {"topk_idx"},
                     nothing_missing,
                     run_topk_gate,
                     every_bit,
                     topk_gate_program});
    table.push_back({"topk_sum_and_topk_group_idx",
                     "the groups of experts whose one or two best scores have the largest sums",
                     {"num_group_sum_topk", "num_topk_groups", "num_groups", "num_experts"},
                     {},
                     {"scores"},
                     {"group_idx"},
                     nothing_missing,
                     run_groups,
                     every_bit,
                     groups_program});
    table.push_back(
        {"top2_sum_gate",
         "the whole gate of a layer: scores, groups, experts, weights, replicas, the rank's share",
         {"num_experts", "num_topk", "num_groups", "num_topk_groups", "use_shared_as_routed", "num_shared_experts",
          "routed_scaling_factor", "scoring", "ep_rank", "num_ep_ranks", "tp_rank", "num_tp_ranks", "fix_routing"},
         {},
         {"logits", "bias"},
         {"topk_idx", "topk_weights", "unmapped_topk_idx"},
         nothing_missing,
         run_gate,
         gate_rule,
         gate_program,
         {"mask", "fix_routing_mask", "to_physical_map", "logical_count", "unmapped_topk_idx"}});
}

}  // namespace tessera::tool

#include "kernels/moe_routing.hpp"
#include "tools/tessera/device_tensor.hpp"
#include "tools/tessera/kernels.hpp"

namespace tessera::tool {

namespace {

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

Rule every_bit(const Case&, const std::string&) { return {}; }
Rule millionth(const Case&, const std::string&) {
    Rule rule;
    rule.relative = 1e-6;
    return rule;
}

constexpr std::int64_t default_topk = 8, default_experts = 256, default_ids = 65536;

std::vector<Result> run_normalize(const Stream& stream, const Case& the_case) {
    const DeviceTensor weights(stream, *the_case.input("topk_weights"));
    const moe::Normalized normalized = moe::normalize_weight(stream, weights);
    std::vector<Result> results;
    results.push_back(download(stream, "denominator", normalized.denominator));
    results.push_back(download(stream, "normalized_weights", normalized.weights));
    return results;
}

Program normalize_program(const Arguments& args, const Target&) {
    return moe::normalize_weight_program(args.number("topk", default_topk));
}

moe::TensorParallel ranks_of(const Arguments& args) {
    return {args.number("n", default_experts), args.number("num_ep_ranks", 8), args.number("tp_rank", 0),
            args.number("num_tp_ranks", 2)};
}

std::vector<Result> run_mask(const Stream& stream, const Case& the_case) {
    const DeviceTensor indices(stream, *the_case.input("indices"));
    std::vector<Result> results;
    results.push_back(download(stream, "out", moe::mask_indices_by_tp(stream, indices, ranks_of(the_case.args))));
    return results;
}

Program mask_program(const Arguments& args, const Target&) {
    const moe::TensorParallel ranks = ranks_of(args);
    return moe::mask_indices_by_tp_program(ranks.num_experts / ranks.num_ep_ranks, ranks.num_tp_ranks,
                                           args.flag("aligned", true));
}

std::vector<Result> run_unique(const Stream& stream, const Case& the_case) {
    const DeviceTensor ids(stream, *the_case.input("group_indices"));
    moe::inplace_unique_group_indices(stream, ids, the_case.args.number("num_groups", default_topk));
    std::vector<Result> results;
    results.push_back(download(stream, "group_indices", ids));
    return results;
}

Program unique_program(const Arguments& args, const Target&) {
    return moe::inplace_unique_group_indices_program(args.number("topk", default_topk));
}

std::vector<Result> run_count(const Stream& stream, const Case& the_case) {
    const DeviceTensor ids(stream, *the_case.input("group_idx"));
    std::vector<Result> results;
    results.push_back(
        download(stream, "out", moe::group_count(stream, ids, the_case.args.number("num_groups", default_experts))));
    return results;
}

Program count_program(const Arguments& args, const Target&) {
    if (part_of(args, {"count", "clear"}) == "clear") return moe::clear_counts_program();
    return moe::group_count_program(
        moe::count_plan(args.number("num_groups", default_experts), args.number("ids", default_ids)),
        args.flag("aligned", true));
}

std::vector<Result> run_aux(const Stream& stream, const Case& the_case) {
    const DeviceTensor ids(stream, *the_case.input("topk_idx"));
    const Arguments& args = the_case.args;
    std::vector<Result> results;
    results.push_back(download(stream, "out",
                               moe::aux_fi(stream, ids, args.number("num_experts", default_experts),
                                           args.number("num_aux_topk", default_topk))));
    return results;
}

Program aux_program(const Arguments&, const Target&) { return moe::aux_fi_program(); }

}  // namespace

void add_routing_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"normalize_weight",
                     "divides each row of weights by its sum",
                     {"topk"},
                     {},
                     {"topk_weights"},
                     {"denominator", "normalized_weights"},
                     nothing_missing,
                     run_normalize,
                     every_bit,
                     normalize_program});
    table.push_back({"mask_indices_by_tp",
                     "keeps and renumbers the experts of one rank of tensor parallelism",
                     {"n", "num_ep_ranks", "tp_rank", "num_tp_ranks"},
                     {},
                     {"indices"},
                     {"out"},
                     nothing_missing,
                     run_mask,
                     every_bit,
                     mask_program});
    table.push_back({"inplace_unique_group_indices",
                     "blanks ids that stand earlier in their row",
                     {"num_groups", "topk"},
                     {},
                     {"group_indices"},
                     {"group_indices"},
                     nothing_missing,
                     run_unique,
                     every_bit,
                     unique_program});
    table.push_back({"group_count",
                     "how often each id occurs",
                     {"num_groups", "ids", "part"},
                     {},
                     {"group_idx"},
                     {"out"},
                     nothing_missing,
                     run_count,
                     every_bit,
                     count_program});
    table.push_back({"aux_fi",
                     "load of each expert, for the balance loss",
                     {"num_experts", "num_aux_topk"},
                     {},
                     {"topk_idx"},
                     {"out"},
                     nothing_missing,
                     run_aux,
                     millionth,
                     aux_program});
}

}  // namespace tessera::tool

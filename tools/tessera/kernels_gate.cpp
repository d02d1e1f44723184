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
    return moe::topk_sum_and_topk_group_idx_program(groups, args.number("num_experts", 256) / groups,
                                                    group_options(args));
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
}

}  // namespace tessera::tool

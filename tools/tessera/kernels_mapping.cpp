#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/moe_mapping.hpp"
#include "tools/tessera/device_tensor.hpp"
#include "tools/tessera/kernels.hpp"

namespace tessera::tool {

namespace {

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

std::vector<Result> run_mapping(const Stream& stream, const Case& the_case) {
    const DeviceTensor ids(stream, *the_case.input("topk_idx"));
    const Arguments& args = the_case.args;
    moe::MappingOptions options{args.number("num_experts", 256), args.number("alignment", 1),
                                args.number("num_expanded_tokens", 0), args.flag("force_no_sync", false)};
    const moe::FusedMapping map = moe::get_fused_mapping(stream, ids, options);
    std::vector<Result> results;
    const std::pair<const char*, const Tensor&> tensors[] = {{"pos_to_expert", map.pos_to_expert},
                                                             {"pos_to_token", map.pos_to_token},
                                                             {"pos_to_token_topk", map.pos_to_token_topk},
                                                             {"token_topk_to_pos", map.token_topk_to_pos},
                                                             {"expert_start", map.expert_start},
                                                             {"expert_end", map.expert_end},
                                                             {"num_tokens_per_expert", map.num_tokens_per_expert}};
    for (const auto& [name, tensor] : tensors) results.push_back(download(stream, name, tensor));
    return results;
}

using Numbers = std::vector<std::int32_t>;

Numbers numbers_of(const Case& the_case, const char* name) {
    const CaseTensor* tensor = the_case.output(name);
    if (!tensor || tensor->type != StoredType::I32)
        throw UsageError(
            fmt::format("{}: out.{} is missing or not I32; a mapping is compared as a whole", the_case.file, name));
    Numbers numbers(tensor->values.size() / sizeof(std::int32_t));
    if (!numbers.empty()) std::memcpy(numbers.data(), tensor->values.data(), tensor->values.size());
    return numbers;
}

/// A file's slots of each expert in ascending order; nothing if its maps are not inverse to each other.
std::optional<Numbers> ascending_slots(const Case& the_case, std::int64_t topk) {
    const Numbers expert = numbers_of(the_case, "pos_to_expert"), token = numbers_of(the_case, "pos_to_token"),
                  pos = numbers_of(the_case, "token_topk_to_pos");
    Numbers slot = numbers_of(the_case, "pos_to_token_topk");
    const auto positions = static_cast<std::int64_t>(slot.size());
    bool consistent = token.size() == slot.size() && expert.size() == slot.size();
    for (std::size_t i = 0; consistent && i < pos.size(); ++i)
        consistent = pos[i] == -1 || (pos[i] >= 0 && pos[i] < positions &&
                                      slot[static_cast<std::size_t>(pos[i])] == static_cast<int>(i));
    for (std::size_t p = 0; consistent && p < slot.size(); ++p) {
        const std::int32_t s = slot[p];
        consistent = s < 0 ? token[p] == -1 && s == -1
                           : s < static_cast<std::int64_t>(pos.size()) && token[p] == s / topk &&
                                 pos[static_cast<std::size_t>(s)] == static_cast<int>(p);
    }
    if (!consistent) return std::nullopt;
    for (std::size_t begin = 0; begin < slot.size();) {
        std::size_t end = begin + 1;
        while (end < slot.size() && expert[end] == expert[begin]) ++end;
        std::sort(slot.begin() + static_cast<std::ptrdiff_t>(begin), slot.begin() + static_cast<std::ptrdiff_t>(end));
        begin = end;
    }
    return slot;
}

/// The order inside an expert is free; ours is ascending.
Rule mapping_rule(const Case& the_case, const std::string& output) {
    Rule rule;
    if (output != "pos_to_token" && output != "pos_to_token_topk" && output != "token_topk_to_pos") return rule;
    const std::int64_t topk = the_case.output("token_topk_to_pos")->shape.back();
    const std::optional<Numbers> ascending = ascending_slots(the_case, topk);
    if (!ascending) {
        rule.broken = "belongs to position maps that are not inverse to each other";
        return rule;
    }
    const Numbers& slots = *ascending;
    Numbers wanted = slots;
    if (output == "pos_to_token")
        for (std::int32_t& s : wanted) s = s < 0 ? -1 : s / static_cast<std::int32_t>(topk);
    if (output == "token_topk_to_pos") {
        wanted.assign(numbers_of(the_case, "token_topk_to_pos").size(), -1);
        for (std::size_t p = 0; p < slots.size(); ++p)
            if (slots[p] >= 0) wanted[static_cast<std::size_t>(slots[p])] = static_cast<std::int32_t>(p);
    }
    rule.values.resize(wanted.size() * sizeof(std::int32_t));
    if (!wanted.empty()) std::memcpy(rule.values.data(), wanted.data(), rule.values.size());
    return rule;
}

/// The kernel of the one launch, or one of the four, by its place in their order.
Program mapping_program(const Arguments& args, const Target& target) {
    const std::int64_t topk = args.number("topk", 8);
    if (!args.has("launch")) {
        const std::int64_t tokens = args.number("tokens", 21987), experts = args.number("num_experts", 256);
        const moe::MappingPlan plan = moe::mapping_plan(tokens * topk, experts, target.multiprocessors);
        if (plan.wide == 0)
            throw UsageError(fmt::format("{}: {} tokens for {} experts take four launches; name one by launch=0 … 3",
                                         args.where(), tokens, experts));
        return moe::map_slots_program(topk, plan);
    }
    switch (args.number("launch", 0)) {
        case 0: return moe::count_slots_program();
        case 1: return moe::scan_chunks_program();
        case 2: return moe::scan_experts_program(args.number("num_experts", 256));
        case 3: return moe::place_slots_program(topk);
        default: throw UsageError(fmt::format("{}: launch is from 0 to 3", args.where()));
    }
}

}  // namespace

void add_mapping_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"get_fused_mapping",
                     "where each slot goes in expert-major order; `launch` shows one of the four of large inputs",
                     {"num_experts", "alignment", "num_expanded_tokens", "force_no_sync", "topk", "tokens", "launch"},
                     {},
                     {"topk_idx"},
                     {"pos_to_expert", "pos_to_token", "pos_to_token_topk", "token_topk_to_pos", "expert_start",
                      "expert_end", "num_tokens_per_expert"},
                     nothing_missing,
                     run_mapping,
                     mapping_rule,
                     mapping_program});
}

}  // namespace tessera::tool

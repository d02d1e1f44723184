#include "tools/tessera/kernel_table.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "tools/tessera/kernels.hpp"

namespace tessera::tool {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
}

}  // namespace

const std::vector<KernelEntry>& kernel_table() {
    static const std::vector<KernelEntry> table = [] {
        std::vector<KernelEntry> entries;
        add_channel_kernels(entries);
        add_engram_kernels(entries);
        add_gate_kernels(entries);
        add_mhc_kernels(entries);
        add_mapping_kernels(entries);
        add_moe_kernels(entries);
        add_quant_kernels(entries);
        add_routing_kernels(entries);
        add_swiglu_kernels(entries);
        add_transpose_kernels(entries);
        std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
        return entries;
    }();
    return table;
}

const KernelEntry* find_kernel(std::string_view name) {
    for (const KernelEntry& entry : kernel_table()) {
        if (entry.name == name) return &entry;
    }
    return nullptr;
}

std::optional<std::string> check_options(const KernelEntry& kernel, const Arguments& args,
                                         const std::vector<std::string>& also) {
    std::optional<std::string> later;
    for (const std::string& key : args.keys()) {
        if (contains(kernel.keys, key) || contains(also, key)) continue;
        if (!contains(kernel.later_keys, key)) {
            throw UsageError(fmt::format("{}: {} has no option {}; it takes {}", args.where(), kernel.name,
                                         json::shown(key), listed(kernel.keys)));
        }
        if (!later) later = fmt::format("the option {} of {} is not written yet", key, kernel.name);
    }
    return later ? later : kernel.not_written(args);
}

Program program_of(const KernelEntry& kernel, const Arguments& args, const Target& target) {
    struct Range {
        const char* option;
        std::int64_t least, most;
    };
    // What specialises a kernel divides, and is written out: a program for a number far outside would be none.
    constexpr std::int64_t many = std::int64_t{1} << 30;
    constexpr Range ranges[] = {
        {"hidden", 1, many},
        {"topk", 1, 1024},
        {"num_topk", 1, 1024},
        {"num_per_channels", 1, many},
        {"num_experts", 1, 1 << 20},
        {"num_groups", 0, 1 << 20},
        {"num_ep_ranks", 1, 1 << 20},
        {"num_tp_ranks", 1, 1 << 20},
        {"ngram", 2, 64},
        {"tables", 1, 1 << 20},
        {"heads", 1, 1024},
        {"rows", 1, 1 << 20},
        {"mhc_mult", 1, 8},
        {"repeat", 1, 1 << 16},
        {"sinkhorn_repeat", 1, 1 << 16},
        {"n_splits", 0, 64},
        {"tokens", 0, many},
        {"n", 1, many},
    };
    for (const Range& range : ranges) {
        if (!args.has(range.option)) continue;
        const std::int64_t number = args.number(range.option, range.least);
        if (number < range.least || number > range.most)
            throw UsageError(fmt::format("{}: the option {} is {}; it is from {} to {}", args.where(), range.option,
                                         number, range.least, range.most));
    }
    return kernel.program(args, target);
}

Element input_element(const Arguments& args, const std::vector<Element>& allowed) {
    const std::string name = args.text("in", name_of(allowed.front()));
    std::vector<std::string> names;
    for (Element element : allowed) {
        if (name == name_of(element)) return element;
        names.emplace_back(name_of(element));
    }
    throw UsageError(fmt::format("{}: in is {}; use one of {}", args.where(), json::shown(name), listed(names)));
}

void check_tensors(const KernelEntry& kernel, const Case& the_case) {
    for (const CaseTensor& t : the_case.inputs) {
        if (!contains(kernel.inputs, t.name) && !contains(kernel.optional_inputs, t.name)) {
            throw UsageError(fmt::format("{}: {} has no input {}; it takes {}", the_case.file, kernel.name,
                                         json::shown(t.name), listed(kernel.inputs)));
        }
    }
    for (const std::string& name : kernel.inputs) {
        if (!the_case.input(name)) {
            throw UsageError(
                fmt::format("{}: the input {} of {} is missing; add it", the_case.file, name, kernel.name));
        }
    }
    for (const CaseTensor& t : the_case.outputs) {
        if (!contains(kernel.outputs, t.name)) {
            throw UsageError(fmt::format("{}: {} has no output {}; it gives {}", the_case.file, kernel.name,
                                         json::shown(t.name), listed(kernel.outputs)));
        }
    }
}

}  // namespace tessera::tool

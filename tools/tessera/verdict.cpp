#include "tools/tessera/verdict.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"

namespace tessera::tool {

const KernelEntry* kernel_for(const Case& the_case, std::string& why) {
    const KernelEntry* kernel = find_kernel(the_case.kernel);
    if (!kernel) {
        why = fmt::format("the kernel {} is not written yet", the_case.kernel);
        return nullptr;
    }
    if (const auto later = check_options(*kernel, the_case.args, {"note", "tolerance"})) {
        why = *later;
        return nullptr;
    }
    check_tensors(*kernel, the_case);
    return kernel;
}

std::optional<std::string> judge(const KernelEntry& kernel, const Case& the_case, const std::vector<Result>& results) {
    if (the_case.outputs.empty()) return "the file expects no output, so there is nothing to compare";
    for (const CaseTensor& expected : the_case.outputs) {
        const auto found = std::find_if(results.begin(), results.end(),
                                        [&](const Result& result) { return result.tensor.name == expected.name; });
        if (found == results.end()) return fmt::format("out.{} was not given by the kernel", expected.name);
        if (const auto why = difference(expected, *found, kernel.rule(the_case, expected.name))) {
            return fmt::format("out.{} {}", expected.name, *why);
        }
    }
    return std::nullopt;
}

}  // namespace tessera::tool

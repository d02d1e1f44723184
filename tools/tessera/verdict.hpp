#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/tessera/kernel_table.hpp"

namespace tessera::tool {

/// Finds the kernel of a case and checks the names of its options and tensors. Nothing is returned, and `why` says why,
/// if kernel or options are not written yet. Errors: UsageError for a name that no specification knows.
const KernelEntry* kernel_for(const Case& the_case, std::string& why);

/// The first difference between what the case expects and what a kernel gave, as a sentence; nothing if there is none.
std::optional<std::string> judge(const KernelEntry& kernel, const Case& the_case, const std::vector<Result>& results);

}  // namespace tessera::tool

#pragma once

#include <istream>
#include <string>
#include <vector>

#include "tools/tessera/arguments.hpp"
#include "tools/tessera/kernel_table.hpp"

namespace tessera::tool {

// A list of kernels is a text: a line for each, its name and then its options as `tessera show` takes them:
//
//     # comments and empty lines do not count
//     per_token_cast in=bf16 hidden=7168 sf=packed
//     batched_transpose
//
// A name alone stands for the default case.

struct WarmItem {
    int line = 0;
    const KernelEntry* kernel = nullptr;
    Arguments args;
};

/// Reads the whole list. Errors: UsageError that begins with "where:line:" for the first line that is wrong.
std::vector<WarmItem> read_warm_list(std::istream& text, const std::string& where);

}  // namespace tessera::tool

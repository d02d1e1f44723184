#pragma once

#include <vector>

#include "tools/tessera/kernel_table.hpp"

// One function a category of kernels: kernels_<category>.cpp.

namespace tessera::tool {

void add_quant_kernels(std::vector<KernelEntry>& table);
void add_transpose_kernels(std::vector<KernelEntry>& table);

}  // namespace tessera::tool

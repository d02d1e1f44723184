#pragma once

#include <vector>

#include "tools/tessera/kernel_table.hpp"

// One function a category of kernels: kernels_<category>.cpp.

namespace tessera::tool {

void add_channel_kernels(std::vector<KernelEntry>& table);
void add_engram_kernels(std::vector<KernelEntry>& table);
void add_gate_kernels(std::vector<KernelEntry>& table);
void add_mhc_kernels(std::vector<KernelEntry>& table);  // with those of the next two
void add_mhc_mix_kernels(std::vector<KernelEntry>& table);
void add_mhc_norm_kernels(std::vector<KernelEntry>& table);
void add_mapping_kernels(std::vector<KernelEntry>& table);
void add_moe_kernels(std::vector<KernelEntry>& table);
void add_quant_kernels(std::vector<KernelEntry>& table);  // with those of the next two
void add_cast_back_kernels(std::vector<KernelEntry>& table);
void add_routing_kernels(std::vector<KernelEntry>& table);
void add_lossless_kernels(std::vector<KernelEntry>& table);
void add_swiglu_kernels(std::vector<KernelEntry>& table);
void add_transpose_kernels(std::vector<KernelEntry>& table);

}  // namespace tessera::tool

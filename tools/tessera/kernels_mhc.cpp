#include "tools/tessera/mhc_case.hpp"

// The hyper-connection kernels that read and write streams of channels.

namespace tessera::tool {

void add_mhc_kernels(std::vector<KernelEntry>& table) { add_mhc_mix_kernels(table); }

}  // namespace tessera::tool

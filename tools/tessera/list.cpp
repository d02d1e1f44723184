#include <fmt/format.h>

#include "tools/tessera/commands.hpp"
#include "tools/tessera/kernel_table.hpp"

namespace tessera::tool {

int list_kernels() {
    for (const KernelEntry& kernel : kernel_table()) {
        fmt::print("{:<20} {}\n", kernel.name, kernel.summary);
        std::string options = "in";
        for (const std::string& key : kernel.keys) options += ", " + key;
        fmt::print("{:<20} options: {}\n", "", options);
    }
    return 0;
}

}  // namespace tessera::tool

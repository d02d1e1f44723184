#include <fmt/format.h>

#include "tools/tessera/commands.hpp"
#include "tools/tessera/kernel_table.hpp"

namespace tessera::tool {

int list_kernels() {
    for (const KernelEntry& kernel : kernel_table()) {
        fmt::print("{:<34} {}\n", kernel.name, kernel.summary);
        std::string options;
        for (const std::string& key : kernel.keys) options += (options.empty() ? "options: " : ", ") + key;
        if (!options.empty()) fmt::print("{:<34} {}\n", "", options);
    }
    fmt::print(
        "\n`show` takes in (type of the input) and aligned (true, or false for the narrow specialisation) too.\n"
        "A wrong value is answered with what the option takes: `tessera show per_token_cast 'fmt=?'`.\n"
        "Options of which `show` takes no note are values of a launch, for `run` and `verify`.\n");
    return 0;
}

}  // namespace tessera::tool

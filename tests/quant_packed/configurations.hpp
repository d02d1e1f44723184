#pragma once

#include <functional>
#include <string>
#include <tessera/quant.hpp>
#include <vector>

namespace tessera::test {

/// One way to specialise a quantization kernel.
struct Configuration {
    std::string name;
    std::function<Program()> record;
};

/// Every class of them: input, format, groups or blocks, scale layouts, rounding, wide and narrow accesses.
std::vector<Configuration> quant_configurations();

}  // namespace tessera::test

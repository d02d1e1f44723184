#pragma once

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/device.hpp"
#include "tests/support/in_parallel.hpp"

namespace tessera::test {

/// Every case on the GPU, several at a time.
template <class Case>
void check_all(const char* kernel, const std::vector<Case>& cases, std::string (*check)(const Device&, const Case&)) {
    const Device device = Device::cuda(0);
    const std::vector<std::string> said =
        in_parallel(cases.size(), [&](std::size_t i) { return check(device, cases[i]); });
    std::size_t right = 0;
    for (std::size_t i = 0; i < said.size(); ++i) {
        INFO(kernel << ", case " << i);
        CHECK(said[i] == "");
        if (said[i].empty()) ++right;
    }
    std::printf("%s: %zu of %zu random shapes right on %s\n", kernel, right, cases.size(), device.name().c_str());
}

}  // namespace tessera::test

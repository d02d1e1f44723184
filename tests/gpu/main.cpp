#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#include "runtime/device.hpp"
#include "runtime/driver/driver.hpp"

int main(int argc, char** argv) {
    if (tessera::Device::best().is_host()) {
        const std::string& problem = tessera::runtime::driver().problem;
        std::printf("SKIPPED: no GPU to test on: %s\n",
                    problem.empty() ? "cuda:0 is none of SM90, SM100" : problem.c_str());
        return 77;
    }
    return Catch::Session().run(argc, argv);
}

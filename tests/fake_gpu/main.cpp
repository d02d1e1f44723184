#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdlib>

int main(int argc, char** argv) {
    ::setenv("TESSERA_NVRTC", FAKE_NVRTC, 1);
    ::setenv("TESSERA_CACHE", "off", 0);
    return Catch::Session().run(argc, argv);
}

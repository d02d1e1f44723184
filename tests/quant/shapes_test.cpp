#include <catch2/catch.hpp>

#include "tests/support/kernels/checks.hpp"

// Random shapes on the host executor against the reference.

using namespace tessera;
using namespace tessera::test;

TEST_CASE("per_token_cast agrees with the reference on 600 shapes", "[quant]") {
    for (const CastCase& c : token_cast_cases(600)) CHECK(check_per_token_cast(Device::host(), c) == "");
}

TEST_CASE("per_block_cast agrees with the reference on 600 shapes", "[quant]") {
    for (const CastCase& c : block_cast_cases(600)) CHECK(check_per_block_cast(Device::host(), c) == "");
}

TEST_CASE("the host as another GPU gives the same bits", "[quant]") {
    const Device b200 = Device::host(Target::b200());
    for (const CastCase& c : thinned(token_cast_cases(600), 60)) CHECK(check_per_token_cast(b200, c) == "");
    for (const CastCase& c : thinned(block_cast_cases(600), 60)) CHECK(check_per_block_cast(b200, c) == "");
}
